//! The routes below `/orders`.

use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use serde_json::json;

use crate::auth::Customer;
use crate::database::Database;
use crate::problems::{Problem, Valid};
use crate::store::{NewOrder, Order};

pub fn routes() -> Router<Database> {
    Router::new()
        .route("/", get(list).post(create))
        .route("/{id}", get(read))
        .route("/{id}/cancel", post(cancel))
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

async fn list(
    State(database): State<Database>,
    Extension(customer): Extension<Customer>,
    Valid(Query(Paging { after, limit })): Valid<Query<Paging>>,
) -> Result<Json<Page>, OrderError> {
    let listed = database.run(move |store| Ok(store.list(&customer, after, limit + 1)?));
    let mut orders = listed.await?;
    let is_more = orders.len() > limit as usize;
    orders.truncate(limit as usize);
    let last = orders.last().filter(|_| is_more);
    let next = last.map(|last| format!("/orders?after={}&limit={limit}", last.id));
    Ok(Json(Page { orders, next }))
}

/// A status, where it is, and the order.
type Created = (StatusCode, [(header::HeaderName, String); 1], Json<Order>);

async fn create(
    State(database): State<Database>,
    Extension(customer): Extension<Customer>,
    Valid(Json(new)): Valid<Json<NewOrder>>,
) -> Result<Created, OrderError> {
    let order = database.run(move |store| Ok(store.add(&customer, new)?)).await?;
    Ok((StatusCode::CREATED, [(header::LOCATION, format!("/orders/{}", order.id))], Json(order)))
}

async fn read(
    State(database): State<Database>,
    Extension(customer): Extension<Customer>,
    Path(id): Path<i64>,
) -> Result<Json<Order>, OrderError> {
    let order = database.run(move |store| Ok(store.get(&customer, id)?)).await?;
    order.map(Json).ok_or(OrderError::Unknown(id))
}

async fn cancel(
    State(database): State<Database>,
    Extension(customer): Extension<Customer>,
    Path(id): Path<i64>,
) -> Result<Json<Order>, OrderError> {
    let cancelled = database.run(move |store| {
        let is_new = store.cancel(&customer, id)?;
        let order = store.get(&customer, id)?.ok_or(OrderError::Unknown(id))?;
        if is_new { Ok(order) } else { Err(OrderError::Cancelled(id)) }
    });
    cancelled.await.map(Json)
}

/// Why an order cannot be had.
pub enum OrderError {
    Unknown(i64),
    Cancelled(i64),
    Busy,
    Panicked,
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
                Problem::new(StatusCode::NOT_FOUND, format!("there is no order {id}")).into_response()
            }
            Self::Cancelled(id) => {
                let problem = Problem::new(StatusCode::CONFLICT, format!("order {id} was cancelled before"));
                let problem = problem.kind("https://orders.example/problems/cancelled", "Cancelled before");
                problem.member("order", json!(id)).into_response()
            }
            Self::Busy => {
                let problem =
                    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "too many requests of this kind wait");
                ([(header::RETRY_AFTER, "1")], problem).into_response()
            }
            Self::Panicked => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
            // The peer cannot help it: 500, and only the log says why.
            Self::Store(error) => {
                tracing::error!(%error, "the database failed");
                StatusCode::INTERNAL_SERVER_ERROR.into_response()
            }
        }
    }
}
