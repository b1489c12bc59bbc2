//! The routes below `/orders`.

use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde_json::json;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::auth::Customer;
use crate::database::Database;
use crate::document::{PROBLEM, ProblemDocument};
use crate::model::{NewOrder, Order, Page, Paging};
use crate::problems::{Problem, Valid};

pub fn routes() -> OpenApiRouter<Database> {
    OpenApiRouter::new().routes(routes!(list, create)).routes(routes!(read)).routes(routes!(cancel))
}

#[utoipa::path(
    get,
    path = "/",
    summary = "List orders",
    params(Paging),
    responses(
        (status = 200, body = Page),
        (status = 400, body = ProblemDocument, content_type = PROBLEM, description = "It does not fit"),
        (status = 401, body = ProblemDocument, content_type = PROBLEM, description = "Who calls is not known", headers(("www-authenticate"))),
        (status = 422, body = ProblemDocument, content_type = PROBLEM, description = "A value breaks a rule"),
        (status = 503, body = ProblemDocument, content_type = PROBLEM, description = "Too many requests wait", headers(("retry-after"))),
    ),
    security(("bearer" = []))
)]
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

#[utoipa::path(
    post,
    path = "/",
    summary = "Order something",
    request_body = NewOrder,
    responses(
        (status = 201, body = Order, headers(("location", description = "Where it is"))),
        (status = 400, body = ProblemDocument, content_type = PROBLEM, description = "It does not fit"),
        (status = 401, body = ProblemDocument, content_type = PROBLEM, description = "Who calls is not known", headers(("www-authenticate"))),
        (status = 413, body = ProblemDocument, content_type = PROBLEM, description = "The body is too large"),
        (status = 415, body = ProblemDocument, content_type = PROBLEM, description = "The body has another media type"),
        (status = 422, body = ProblemDocument, content_type = PROBLEM, description = "A value breaks a rule"),
        (status = 503, body = ProblemDocument, content_type = PROBLEM, description = "Too many requests wait", headers(("retry-after"))),
    ),
    security(("bearer" = []))
)]
async fn create(
    State(database): State<Database>,
    Extension(customer): Extension<Customer>,
    Valid(Json(new)): Valid<Json<NewOrder>>,
) -> Result<Created, OrderError> {
    let order = database.run(move |store| Ok(store.add(&customer, new)?)).await?;
    Ok((StatusCode::CREATED, [(header::LOCATION, format!("/orders/{}", order.id))], Json(order)))
}

#[utoipa::path(
    get,
    path = "/{id}",
    summary = "Read an order",
    params(("id" = i64, Path)),
    responses(
        (status = 200, body = Order),
        (status = 400, body = ProblemDocument, content_type = PROBLEM, description = "It does not fit"),
        (status = 401, body = ProblemDocument, content_type = PROBLEM, description = "Who calls is not known", headers(("www-authenticate"))),
        (status = 404, body = ProblemDocument, content_type = PROBLEM, description = "There is no such order"),
        (status = 503, body = ProblemDocument, content_type = PROBLEM, description = "Too many requests wait", headers(("retry-after"))),
    ),
    security(("bearer" = []))
)]
async fn read(
    State(database): State<Database>,
    Extension(customer): Extension<Customer>,
    Path(id): Path<i64>,
) -> Result<Json<Order>, OrderError> {
    let order = database.run(move |store| Ok(store.get(&customer, id)?)).await?;
    order.map(Json).ok_or(OrderError::Unknown(id))
}

#[utoipa::path(
    post,
    path = "/{id}/cancel",
    summary = "Cancel an order",
    params(("id" = i64, Path)),
    responses(
        (status = 200, body = Order),
        (status = 400, body = ProblemDocument, content_type = PROBLEM, description = "It does not fit"),
        (status = 401, body = ProblemDocument, content_type = PROBLEM, description = "Who calls is not known", headers(("www-authenticate"))),
        (status = 404, body = ProblemDocument, content_type = PROBLEM, description = "There is no such order"),
        (status = 409, body = ProblemDocument, content_type = PROBLEM, description = "It was cancelled before"),
        (status = 503, body = ProblemDocument, content_type = PROBLEM, description = "Too many requests wait", headers(("retry-after"))),
    ),
    security(("bearer" = []))
)]
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
