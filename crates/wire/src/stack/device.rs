//! Listening and dialling on a device.

use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use anywire_advice::Message;
use anywire_stack::shards::{Cidr, Mac, ServiceError};
use anywire_stack::stream::{Listener, Polling};
use anywire_sys::thread_bound::ThreadBound;

use super::checks;
use super::devices::User;
use super::host::Host;
use super::location::{DeviceName, Location, default_prefix, own_address, polling};
use super::{StackArrival, StackTransport};
use crate::address::Address;
use crate::connection::Connection;
use crate::dialer::DialOptions;
use crate::error::{DialError, ListenError};
use crate::listener::ListenOptions;
use crate::wires::{Acceptor, Arrival, Bound, Wire};

/// Opens the device, and claims the address on it. Asks on the link whether somebody has the address, which blocks for 0.3 s at most;
/// if the device runs already, its loop asks when it first accepts.
pub(super) fn bind(
    wire: &'static dyn Wire,
    address: &Address,
    location: &Location<'_>,
    options: &ListenOptions,
    loops: usize,
) -> Result<Bound, ListenError> {
    let failed = |cause| ListenError::System { address: address.clone(), cause };
    let user = User::of(&location.device, mac_of(address)).map_err(failed)?;
    let claim = user.shards.reserve(location.address, loops).map_err(|error| match error {
        ServiceError::InUse(_) => ListenError::InUse { address: address.clone() },
        error => failed(io::Error::other(error)),
    })?;
    checks::before_start(&location.device, location.address.ip()).map_err(failed)?;
    let bound = Location { address: claim.address(), ..*location };
    let local = Address::from_wire(wire, bound.to_string());
    let ip = location.address.ip();
    let prefix = address.option("prefix").and_then(|prefix| prefix.parse().ok());
    let service = Service {
        device: location.device.to_string(),
        address: claim.address(),
        own: Cidr::new(ip, prefix.unwrap_or(default_prefix(ip))).unwrap_or(Cidr::host(ip)),
        gateway: gateway_of(address),
        mac: mac_of(address),
        polling: polling_of(address),
        backlog: usize::try_from(options.backlog).unwrap_or(usize::MAX),
    };
    let service = Arc::new(service);
    let acceptor = |_| {
        let service = Arc::clone(&service);
        Box::new(DeviceAcceptor { service, state: None }) as Box<dyn Acceptor>
    };
    Ok(Bound { local, acceptors: (0..loops).map(acceptor).collect(), guard: Some(Box::new((claim, user))) })
}

/// Connects from the address that the option `from` names, or else from one that this loop has on the device already.
pub(super) async fn dial(
    address: &Address,
    location: Location<'_>,
    options: &DialOptions,
) -> Result<Connection, DialError> {
    let failed = |cause| DialError::from_io(address, cause);
    let host = Host::here(&location.device, mac_of(address)).map_err(failed)?;
    host.poll(polling_of(address));
    let remote = location.address;
    let dialing = async {
        if let Some(own) = address.option("from").and_then(|own| own_address(own).ok()) {
            host.join(own, gateway_of(address)).await?;
        } else if !host.has_address_for(remote.ip()) {
            return Err(nameless(&location.device, remote.ip()));
        }
        host.connect(remote).await
    };
    let stream = options.connect_in_time(address, async { dialing.await.map_err(failed) }).await?;
    Ok(Connection::new(StackTransport::new(stream, &host.name, None)))
}

fn gateway_of(address: &Address) -> Option<IpAddr> {
    address.option("gateway").and_then(|gateway| gateway.parse().ok())
}

fn mac_of(address: &Address) -> Option<Mac> {
    address.option("mac").and_then(|mac| mac.parse().ok())
}

fn polling_of(address: &Address) -> Option<Polling> {
    address.option("poll").and_then(|how| polling(how).ok())
}

fn nameless(device: &DeviceName<'_>, remote: IpAddr) -> io::Error {
    let message =
        Message::new(format!("this process has no address on {device} from which to reach {remote}"));
    let own = if remote.is_ipv4() { "10.0.0.2/24" } else { "fd00::2/64" };
    io::Error::other(message.with_help(format!("name one, such as ?from={own}")))
}

/// What is listened on.
struct Service {
    /// As [`DeviceName`] shows it.
    device: String,
    address: SocketAddr,
    own: Cidr,
    gateway: Option<IpAddr>,
    mac: Option<Mac>,
    polling: Option<Polling>,
    backlog: usize,
}

/// Accepts on the loop that polls it, which has a part of the service's connections.
struct DeviceAcceptor {
    service: Arc<Service>,
    state: Option<ThreadBound<RefCell<State>>>,
}

/// How far the loop has come that polls.
enum State {
    /// The address is asked for.
    Joining(Pin<Box<dyn Future<Output = io::Result<Listener>>>>, Rc<Host>),
    Listening(Listener, Rc<Host>),
}

impl State {
    fn start(service: &Arc<Service>) -> io::Result<Self> {
        let name = DeviceName::parse(&service.device).map_err(io::Error::other)?;
        let host = Host::here(&name, service.mac)?;
        host.poll(service.polling);
        let (joining, service) = (Rc::clone(&host), Arc::clone(service));
        let joining = async move {
            joining.join(service.own, service.gateway).await?;
            joining.listen(service.address, service.backlog)
        };
        Ok(Self::Joining(Box::pin(joining), host))
    }

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Box<dyn Arrival>>> {
        if let Self::Joining(joining, host) = self {
            let listener = ready!(joining.as_mut().poll(cx))?;
            *self = Self::Listening(listener, Rc::clone(host));
        }
        let Self::Listening(listener, host) = self else { return Poll::Pending };
        let stream = ready!(listener.poll_accept(cx))?;
        Poll::Ready(Ok(StackArrival::of(StackTransport::new(stream, &host.name, None))))
    }
}

impl Acceptor for DeviceAcceptor {
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Box<dyn Arrival>>> {
        let state = match self.state.as_ref().and_then(ThreadBound::get) {
            Some(state) => state,
            None => {
                let state = ThreadBound::new(RefCell::new(State::start(&self.service)?));
                self.state.insert(state).get().ok_or(io::ErrorKind::NotConnected)?
            }
        };
        let polled = state.borrow_mut().poll_accept(cx);
        if let Poll::Ready(Err(_)) = polled {
            // The address may be free the next time.
            self.state = None;
        }
        polled
    }
}
