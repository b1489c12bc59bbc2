//! Name servers that this process asks itself (feature `dns`): answers with their TTL, and SRV.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hickory_resolver::config::{NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::proto::rr::{RData, RecordType};
use hickory_resolver::system_conf::read_system_conf;
use hickory_resolver::{Hosts, Resolver as Hickory, TokioResolver};

use super::resolver::{Answer, Records, ResolveError, Resolver, Resolving};

/// Asks name servers by UDP, and by TCP if an answer is too long. It blocks nothing and needs no threads, and its answers have a TTL.
/// IPv6 and IPv4 addresses are asked for side by side.
///
/// A name that begins with `_` is a service, such as `_http._tcp.shop.internal`: its SRV records say which hosts and ports serve it
/// (RFC 2782). The ports of a URL do not count then. Over TLS the peer has to prove a name, which
/// [`DialOptions::server_name`](crate::DialOptions::server_name) sets.
///
/// ```no_run
/// use anywire_wire::names::{DnsResolver, Names};
///
/// let names = Names::new(DnsResolver::from_system()?);
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct DnsResolver {
    config: ResolverConfig,
    options: ResolverOpts,
    hosts: Arc<Hosts>,
}

impl DnsResolver {
    /// The name servers of `/etc/resolv.conf`, its search list, and `/etc/hosts`. They are read here, and not again.
    ///
    /// # Errors
    /// The file cannot be read, or is none.
    pub fn from_system() -> io::Result<Self> {
        let (config, options) = read_system_conf().map_err(io::Error::other)?;
        let hosts = Hosts::from_system().unwrap_or_default();
        Ok(Self::new(config, options, hosts))
    }

    /// These name servers, and neither a search list nor `/etc/hosts`.
    pub fn with_servers(servers: impl IntoIterator<Item = SocketAddr>) -> Self {
        let server = |address: SocketAddr| {
            let mut server = NameServerConfig::udp_and_tcp(address.ip());
            server.connections.iter_mut().for_each(|connection| connection.port = address.port());
            server
        };
        let servers = servers.into_iter().map(server).collect();
        Self::new(ResolverConfig::from_name_servers(servers), ResolverOpts::default(), Hosts::default())
    }

    fn new(config: ResolverConfig, mut options: ResolverOpts, hosts: Hosts) -> Self {
        // The cache is above it.
        options.cache_size = 0;
        options.use_hosts_file = ResolveHosts::Never;
        options.timeout = options.timeout.min(PATIENCE);
        Self { config, options, hosts: Arc::new(hosts) }
    }

    /// One for each query: its sockets belong to the loop that asks, and end with it.
    fn hickory(&self) -> Result<TokioResolver, ResolveError> {
        let builder = Hickory::builder_with_config(self.config.clone(), TokioRuntimeProvider::default());
        let mut resolver = builder.with_options(self.options.clone()).build().map_err(error_of)?;
        resolver.set_hosts(Arc::clone(&self.hosts));
        Ok(resolver)
    }
}

impl Resolver for DnsResolver {
    fn records(&self) -> &'static [Records] {
        &[Records::V6, Records::V4]
    }

    fn resolve<'a>(&'a self, name: &'a str, records: Records) -> Resolving<'a> {
        Box::pin(async move {
            let hickory = self.hickory()?;
            match name.starts_with('_') {
                true => service(&hickory, name, records).await,
                false => addresses(&hickory, name, records).await,
            }
        })
    }
}

impl fmt::Debug for DnsResolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DnsResolver").field("config", &self.config).finish_non_exhaustive()
    }
}

async fn addresses(hickory: &TokioResolver, name: &str, records: Records) -> Result<Answer, ResolveError> {
    let kind = if records == Records::V6 { RecordType::AAAA } else { RecordType::A };
    let found = hickory.lookup(name, kind).await.map_err(error_of)?;
    let mut answer = Answer::default();
    for record in found.answers() {
        let ip = match &record.data {
            RData::A(ip) => ip.0.into(),
            RData::AAAA(ip) => ip.0.into(),
            _ => continue,
        };
        answer.addresses.push(SocketAddr::new(ip, 0));
        shorten(&mut answer, record.ttl);
    }
    Ok(answer)
}

/// The addresses of the hosts of a service, with its ports.
async fn service(hickory: &TokioResolver, name: &str, records: Records) -> Result<Answer, ResolveError> {
    let found = hickory.lookup(name, RecordType::SRV).await.map_err(error_of)?;
    let random = RandomState::new();
    let mut hosts = Vec::new();
    let mut answer = Answer::default();
    for (at, record) in found.answers().iter().enumerate() {
        let RData::SRV(srv) = &record.data else { continue };
        shorten(&mut answer, record.ttl);
        // By weight at random: the time until an event that comes `weight` times as often.
        let unit = (random.hash_one(at) >> 11) as f64 / (1_u64 << 53) as f64;
        let turn = -(unit.max(f64::MIN_POSITIVE)).ln() / (f64::from(srv.weight) + 0.01);
        hosts.push((srv.priority, turn, srv.target.to_utf8(), srv.port));
    }
    hosts.sort_by(|one, other| one.0.cmp(&other.0).then(one.1.total_cmp(&other.1)));
    let mut failed = ResolveError::NotFound;
    // The root stands for no host at all.
    for (_, _, host, port) in hosts.into_iter().filter(|(_, _, host, _)| host != ".").take(HOSTS_MAX) {
        match addresses(hickory, &host, records).await {
            Ok(found) => {
                answer.addresses.extend(found.addresses.iter().map(|one| SocketAddr::new(one.ip(), port)));
                answer.ttl = answer.ttl.min(found.ttl).or(answer.ttl);
            }
            Err(ResolveError::NotFound) => {}
            Err(error) => failed = error,
        }
    }
    if answer.addresses.is_empty() { Err(failed) } else { Ok(answer) }
}

/// An answer holds as long as the first of its records to end.
fn shorten(answer: &mut Answer, ttl: u32) {
    let ttl = Duration::from_secs(ttl.into());
    answer.ttl = Some(answer.ttl.map_or(ttl, |known| known.min(ttl)));
}

fn error_of(error: NetError) -> ResolveError {
    match error {
        NetError::Dns(DnsError::NoRecordsFound(none))
            if matches!(none.response_code, ResponseCode::NoError | ResponseCode::NXDomain) =>
        {
            ResolveError::NotFound
        }
        NetError::Busy => ResolveError::Full,
        NetError::Timeout => ResolveError::failed(io::ErrorKind::TimedOut),
        error => ResolveError::failed(io::Error::other(error)),
    }
}

/// The longest wait for one name server, after which the next one is asked, or the same again.
const PATIENCE: Duration = Duration::from_secs(1);

/// Hosts of a service that are looked up.
const HOSTS_MAX: usize = 16;
