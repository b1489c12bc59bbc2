//! The routes below `/orders`. Each runs on the pool `db`.

use std::sync::Arc;
use std::time::Duration;

use anywire::server::RouteLimits;
use anywire::server::layers::Problem;
use anywire::server::openapi::{DescribeResponse, ResponseDoc, Schemas};
use anywire::{
    Blocking, Created, Error, Extension, Handler, IntoResponse, Json, Path, Query, Response, Router,
    StatusCode, Valid,
};

use crate::auth::Customer;
use crate::model::{NewOrder, Order, Page, Paging};
use crate::store::Store;

/// `wait` is how long a request may wait for a thread.
pub fn routes(wait: Duration) -> Router {
    Router::new()
        .get("/", list.on_pool("db").documented().summary("List orders"))
        .post("/", create.on_pool("db").documented().summary("Order something"))
        .get("/{id}", read.on_pool("db").documented().summary("Read an order"))
        .post("/{id}/cancel", cancel.on_pool("db").documented().summary("Cancel an order"))
        .limits(RouteLimits { queue_deadline: Some(wait.into()), ..RouteLimits::default() })
}

/// An error of the database is a 500, and only the log says why.
fn list(
    store: Arc<Store>,
    Extension(customer): Extension<Customer>,
    Valid(Query(Paging { after, limit })): Valid<Query<Paging>>,
) -> Result<Json<Page>, Error> {
    let mut orders = store.list(&customer, after, limit + 1)?;
    let is_more = orders.len() > limit as usize;
    orders.truncate(limit as usize);
    let last = orders.last().filter(|_| is_more);
    let next = last.map(|last| format!("/orders?after={}&limit={limit}", last.id));
    Ok(Json(Page { orders, next }))
}

fn create(
    store: Arc<Store>,
    Extension(customer): Extension<Customer>,
    Valid(Json(new)): Valid<Json<NewOrder>>,
) -> Result<Created<Json<Order>>, Error> {
    let order = store.add(&customer, new)?;
    Ok(Created::at(format!("/orders/{}", order.id), Json(order)))
}

/// `None` is a 404.
fn read(
    store: Arc<Store>,
    Extension(customer): Extension<Customer>,
    Path(id): Path<i64>,
) -> Result<Option<Json<Order>>, Error> {
    Ok(store.get(&customer, id)?.map(Json))
}

fn cancel(
    store: Arc<Store>,
    Extension(customer): Extension<Customer>,
    Path(id): Path<i64>,
) -> Result<Json<Order>, CancelError> {
    let is_new = store.cancel(&customer, id)?;
    let order = store.get(&customer, id)?.ok_or(CancelError::Unknown(id))?;
    if is_new { Ok(Json(order)) } else { Err(CancelError::Before(id)) }
}

/// Why an order cannot be cancelled.
enum CancelError {
    Unknown(i64),
    Before(i64),
    Store(rusqlite::Error),
}

impl From<rusqlite::Error> for CancelError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Store(error)
    }
}

impl IntoResponse for CancelError {
    fn into_response(self) -> Response {
        match self {
            Self::Unknown(id) => {
                Problem::new(StatusCode::NOT_FOUND).detail(format!("there is no order {id}")).into_response()
            }
            Self::Before(id) => Problem::new(StatusCode::CONFLICT)
                .kind("https://orders.example/problems/cancelled")
                .title("Cancelled before")
                .detail(format!("order {id} was cancelled before"))
                .member("order", id)
                .into_response(),
            Self::Store(error) => Error::from(error).into_response(),
        }
    }
}

/// For the page of the routes.
impl DescribeResponse for CancelError {
    fn describe(schemas: &mut Schemas) -> ResponseDoc {
        let unknown = ResponseDoc::of(StatusCode::NOT_FOUND).description("There is no such order.");
        let before = ResponseDoc::of(StatusCode::CONFLICT).description("It was cancelled before.");
        unknown.or(before).problem(schemas)
    }
}
