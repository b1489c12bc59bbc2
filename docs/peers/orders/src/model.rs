//! What goes in and out as JSON.

use utoipa::{IntoParams, ToSchema};

/// What a customer asks for.
#[derive(Debug, serde::Deserialize, garde::Validate, ToSchema)]
pub struct NewOrder {
    /// What it is.
    #[garde(length(min = 1, max = 40))]
    #[schema(min_length = 1, max_length = 40)]
    pub item: String,
    /// How many.
    #[garde(range(min = 1, max = 99))]
    #[schema(minimum = 1, maximum = 99)]
    pub count: u32,
}

/// An order as it is kept.
#[derive(Debug, serde::Serialize, ToSchema)]
pub struct Order {
    /// Its number.
    pub id: i64,
    pub item: String,
    pub count: u32,
    /// Nobody will deliver it.
    pub cancelled: bool,
}

/// Which orders to list.
#[derive(Debug, serde::Deserialize, garde::Validate, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Paging {
    /// Those with a larger number.
    #[serde(default)]
    #[garde(range(min = 0))]
    #[param(minimum = 0)]
    pub after: i64,
    /// How many at most.
    #[serde(default = "page_size")]
    #[garde(range(min = 1, max = 100))]
    #[param(minimum = 1, maximum = 100, default = 20)]
    pub limit: u32,
}

fn page_size() -> u32 {
    20
}

/// Some of the orders.
#[derive(Debug, serde::Serialize, ToSchema)]
pub struct Page {
    pub orders: Vec<Order>,
    /// Where the next page is.
    pub next: Option<String>,
}
