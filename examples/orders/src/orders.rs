//! The routes below `/orders`. Each runs on the pool `db`.

use std::sync::Arc;
use std::time::Duration;

use anywire::layers::Problem;
use anywire::{
    Blocking, Error, Extension, IntoResponse, Json, Path, Query, Response, Router, StatusCode, Valid,
};

use crate::auth::Customer;
use crate::store::{NewOrder, Order, Store};

/// `wait` is how long a request may wait for a thread.
pub fn routes(wait: Duration) -> Router {
    Router::new()
        .get("/", list.on_pool("db").queue_deadline(wait))
        .post("/", create.on_pool("db").queue_deadline(wait))
        .get("/{id}", read.on_pool("db").queue_deadline(wait))
        .post("/{id}/cancel", cancel.on_pool("db").queue_deadline(wait))
}

#[derive(serde::Deserialize, garde::Validate)]
struct Paging {
    #[serde(default)]
    #[garde(range(min = 0))]
    after: i64,
    #[serde(default = "page_size")]
    #[garde(range(min = 1, max = 100))]
    limit: u32,
}

fn page_size() -> u32 {
    20
}

#[derive(serde::Serialize)]
struct Page {
    orders: Vec<Order>,
    /// Where the next page is.
    next: Option<String>,
}

fn list(
    store: Arc<Store>,
    Extension(customer): Extension<Customer>,
    Valid(Query(Paging { after, limit })): Valid<Query<Paging>>,
) -> Result<Json<Page>, OrderError> {
    let mut orders = store.list(&customer, after, limit + 1)?;
    let is_more = orders.len() > limit as usize;
    orders.truncate(limit as usize);
    let last = orders.last().filter(|_| is_more);
    let next = last.map(|last| format!("/orders?after={}&limit={limit}", last.id));
    Ok(Json(Page { orders, next }))
}

/// A status, where it is, and the order.
type Created = (StatusCode, [(&'static str, String); 1], Json<Order>);

fn create(
    store: Arc<Store>,
    Extension(customer): Extension<Customer>,
    Valid(Json(new)): Valid<Json<NewOrder>>,
) -> Result<Created, OrderError> {
    let order = store.add(&customer, new)?;
    Ok((StatusCode::CREATED, [("location", format!("/orders/{}", order.id))], Json(order)))
}

fn read(
    store: Arc<Store>,
    Extension(customer): Extension<Customer>,
    Path(id): Path<i64>,
) -> Result<Json<Order>, OrderError> {
    store.get(&customer, id)?.map(Json).ok_or(OrderError::Unknown(id))
}

fn cancel(
    store: Arc<Store>,
    Extension(customer): Extension<Customer>,
    Path(id): Path<i64>,
) -> Result<Json<Order>, OrderError> {
    let is_new = store.cancel(&customer, id)?;
    let order = store.get(&customer, id)?.ok_or(OrderError::Unknown(id))?;
    if is_new { Ok(Json(order)) } else { Err(OrderError::Cancelled(id)) }
}

/// Why an order cannot be had.
enum OrderError {
    Unknown(i64),
    Cancelled(i64),
    Store(rusqlite::Error),
}

impl From<rusqlite::Error> for OrderError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Store(error)
    }
}

impl IntoResponse for OrderError {
    fn into_response(self) -> Response {
        match self {
            Self::Unknown(id) => {
                Problem::new(StatusCode::NOT_FOUND).detail(format!("there is no order {id}")).into_response()
            }
            Self::Cancelled(id) => Problem::new(StatusCode::CONFLICT)
                .kind("https://orders.example/problems/cancelled")
                .title("Cancelled before")
                .detail(format!("order {id} was cancelled before"))
                .member("order", id)
                .into_response(),
            // The peer cannot help it: 500, and only the log says why.
            Self::Store(error) => Error::from(error).into_response(),
        }
    }
}
