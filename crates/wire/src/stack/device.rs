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
use anywire_stack::shards::{self, Cidr, Mac, ServiceError};
use anywire_stack::stream::{Listener, Polling};
use anywire_sys::thread_bound::ThreadBound;

use super::checks;
use super::host::DeviceHost;
use super::lease::Lease;
use super::location::{DeviceName, Location, Options, default_prefix};
use super::registry::OpenDevice;
use super::transport::{StackArrival, StackTransport};
use crate::address::Address;
use crate::connection::Connection;
use crate::dialer::DialOptions;
use crate::error::{DialError, ListenError};
use crate::listener::ListenOptions;
use crate::wires::{Acceptor, Arrival, Bound, Ended, Wire};

/// Opens the device, and claims the address on it. Asks on the link whether somebody has the address, which blocks for 0.3 s; if the
/// device runs already, one of its loops asks.
pub(super) fn bind(
    wire: &'static dyn Wire,
    address: &Address,
    location: &Location<'_>,
    options: &ListenOptions,
    loops: usize,
) -> Result<Bound, ListenError> {
    let failed = |cause| ListenError::System { address: address.clone(), cause };
    let ip = location.address.ip();
    let Options { gateway, mac, polling, prefix, .. } = Options::of(address, ip).map_err(failed)?;
    let own = Cidr::new(ip, prefix.unwrap_or(default_prefix(ip)));
    let own = own.map_err(|error| failed(io::Error::new(io::ErrorKind::InvalidInput, error)))?;
    means_nothing(address, "from", "the address to listen at is that before the port").map_err(failed)?;
    checks::can_be_ours(own, gateway).map_err(failed)?;
    let open = OpenDevice::of(&location.device, mac).map_err(failed)?;
    let reserved = open.shards.reserve(location.address, loops).map_err(|error| match error {
        ServiceError::InUse(_) => ListenError::InUse { address: address.clone() },
        error => failed(io::Error::other(error)),
    })?;
    checks::ask_parked(&location.device, ip).map_err(failed)?;
    let address = reserved.address();
    let bound = Location { address, ..*location };
    let local = Address::from_wire(wire, bound.to_string());
    let device = location.device.to_string();
    checks::ask_running(&device, own, gateway).map_err(failed)?;
    // The service is given up before the device.
    let (lease, guard) = Lease::new((reserved, open));
    let backlog = usize::try_from(options.backlog).unwrap_or(usize::MAX);
    let service = Arc::new(DeviceService { device, address, own, gateway, mac, polling, backlog, lease });
    let acceptor = |_| {
        let service = Arc::clone(&service);
        Box::new(DeviceAcceptor { service, state: None, ended: None }) as Box<dyn Acceptor>
    };
    Ok(Bound { local, acceptors: (0..loops).map(acceptor).collect(), guard: Some(Box::new(guard)) })
}

/// Connects from the address that the option `from` names, or else from one that this loop has on the device already.
pub(super) async fn dial(
    address: &Address,
    location: Location<'_>,
    options: &DialOptions,
) -> Result<Connection, DialError> {
    let failed = |cause| DialError::from_io(address, cause);
    let remote = location.address;
    let Options { from: own, gateway, mac, polling, .. } =
        Options::of(address, remote.ip()).map_err(failed)?;
    means_nothing(address, "prefix", "say it behind the own address: ?from=IP/PREFIX").map_err(failed)?;
    match own {
        Some(own) => checks::can_be_ours(own, gateway),
        None => means_nothing(address, "gateway", "name the own address, too: ?from=IP/PREFIX&gateway=IP"),
    }
    .map_err(failed)?;
    let host = DeviceHost::of_loop(&location.device, mac).map_err(failed)?;
    if host.is_own(remote.ip()) {
        return Err(failed(itself(&location.device, remote.ip())));
    }
    host.poll(polling);
    let dialing = async {
        if let Some(own) = own {
            host.join(own, gateway).await?;
        } else if !host.has_address_for(remote.ip()) {
            return Err(nameless(&location.device, remote.ip()));
        }
        host.connect(remote).await
    };
    let stream = options.connect_in_time(address, async { dialing.await.map_err(failed) }).await?;
    Ok(Connection::new(StackTransport::new(stream, &host.name)))
}

/// Refuses an option that has no effect here.
fn means_nothing(address: &Address, option: &str, help: &str) -> io::Result<()> {
    match address.option(option) {
        None => Ok(()),
        Some(value) => {
            let message = Message::new(format!("{option}={value} means nothing here"));
            Err(io::Error::new(io::ErrorKind::InvalidInput, message.with_help(help)))
        }
    }
}

fn nameless(device: &DeviceName<'_>, remote: IpAddr) -> io::Error {
    let message =
        Message::new(format!("this process has no address on {device} from which to reach {remote}"));
    let own = if remote.is_ipv4() { "10.0.0.2/24" } else { "fd00::2/64" };
    io::Error::other(message.with_help(format!("name one, such as ?from={own}")))
}

/// A device carries frames to others, and brings none back.
fn itself(device: &DeviceName<'_>, remote: IpAddr) -> io::Error {
    let message = Message::new(format!("{remote} is this process's own address on {device}"));
    let help = "serve it at stack:switch or memory: as well, and call it there";
    io::Error::new(io::ErrorKind::InvalidInput, message.with_help(help))
}

/// What is listened on.
struct DeviceService {
    /// As [`DeviceName`] shows it.
    device: String,
    address: SocketAddr,
    own: Cidr,
    gateway: Option<IpAddr>,
    mac: Option<Mac>,
    polling: Option<Polling>,
    backlog: usize,
    lease: Lease<(shards::Reservation, OpenDevice)>,
}

/// Accepts on the loop that polls it, which has a part of the service's connections.
struct DeviceAcceptor {
    service: Arc<DeviceService>,
    state: Option<ThreadBound<RefCell<State>>>,
    /// The device was removed, or nobody drives it any more.
    ended: Option<Ended>,
}

/// How far the loop has come that polls.
enum State {
    /// The address is asked for.
    Joining(Pin<Box<dyn Future<Output = io::Result<Listener>>>>, Rc<DeviceHost>),
    Listening(Listener, Rc<DeviceHost>),
}

impl State {
    fn start(service: &Arc<DeviceService>) -> io::Result<Self> {
        let name = DeviceName::parse(&service.device).map_err(io::Error::other)?;
        let host = DeviceHost::of_loop(&name, service.mac)?;
        host.poll(service.polling);
        let (joining, service) = (Rc::clone(&host), Arc::clone(service));
        let joining = async move {
            joining.join(service.own, service.gateway).await?;
            joining.listen(service.address, service.backlog)
        };
        Ok(Self::Joining(Box::pin(joining), host))
    }

    fn host(&self) -> &DeviceHost {
        let (Self::Joining(_, host) | Self::Listening(_, host)) = self;
        host
    }

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Box<dyn Arrival>>> {
        if let Self::Joining(joining, host) = self {
            let listener = ready!(joining.as_mut().poll(cx))?;
            *self = Self::Listening(listener, Rc::clone(host));
        }
        let Self::Listening(listener, host) = self else { return Poll::Pending };
        let stream = ready!(listener.poll_accept(cx))?;
        Poll::Ready(Ok(StackArrival::of(StackTransport::new(stream, &host.name))))
    }
}

impl Acceptor for DeviceAcceptor {
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Box<dyn Arrival>>> {
        let state = match self.state.as_ref().and_then(ThreadBound::get) {
            Some(state) => state,
            // A listener that stops asks once more who waits. It would open the device again.
            None if self.service.lease.is_given_up() => return Poll::Pending,
            None => {
                let state = ThreadBound::new(RefCell::new(State::start(&self.service)?));
                self.state.insert(state).get().ok_or(io::ErrorKind::NotConnected)?
            }
        };
        let polled = state.borrow_mut().poll_accept(cx);
        let Poll::Ready(Err(error)) = polled else { return polled };
        let end = state.borrow().host().end();
        self.ended =
            end.as_ref().map(|_| if state.borrow().host().is_gone() { Ended::All } else { Ended::One });
        // The address may be free the next time.
        self.state = None;
        Poll::Ready(Err(end.unwrap_or(error)))
    }

    fn ended(&self) -> Option<Ended> {
        self.ended
    }
}
