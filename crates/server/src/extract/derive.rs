//! Structs of extractors.

/// Makes an extractor of a struct whose fields are extractors of the head, so that handlers have it as one argument.
///
/// The fields are extracted in their order, and the first one that fails answers. What they need from the router is checked
/// at start, as for arguments. `#[from_request(via(Path))]` on a field takes the value out of the extractor.
///
/// ```
/// use anywire_server::{FromRequestParts, Path, PeerAddress, Query, Router, State};
///
/// #[derive(Clone)]
/// struct Shop { name: &'static str }
///
/// #[derive(serde::Deserialize)]
/// struct Paging { #[serde(default)] page: u32 }
///
/// #[derive(FromRequestParts)]
/// #[from_request(crate = "anywire_server")] // not needed by a program that depends on `anywire`
/// struct Ask {
///     shop: State<Shop>,
///     peer: PeerAddress,
///     #[from_request(via(Query))]
///     paging: Paging,
///     #[from_request(via(Path))]
///     item: String,
/// }
///
/// let show = async |ask: Ask| format!("{} of {}, page {}", ask.item, ask.shop.name, ask.paging.page);
/// let router = Router::new().state(Shop { name: "the shop" }).get("/items/{item}", show);
/// # anywire_loops::block_on(async {
/// let mut response = router.call(anywire_http::Request::get("/items/tea?page=2")).await;
/// assert_eq!(response.body.text(100).await?, "tea of the shop, page 2");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub use anywire_macros::FromRequestParts;

/// As the derive of [`FromRequestParts`](macro@FromRequestParts), of a struct whose last field may take the body. It is the last
/// argument of a handler.
///
/// ```
/// use anywire_server::{FromRequest, Json, Router, State};
///
/// #[derive(serde::Deserialize)]
/// struct Order { item: String }
///
/// #[derive(FromRequest)]
/// #[from_request(crate = "anywire_server")]
/// struct NewOrder {
///     count: State<u32>,
///     #[from_request(via(Json))]
///     order: Order,
/// }
///
/// let order = async |new: NewOrder| format!("{} {}", *new.count, new.order.item);
/// let router = Router::new().state(7u32).post("/orders", order);
/// # drop(router);
/// ```
pub use anywire_macros::FromRequest;
