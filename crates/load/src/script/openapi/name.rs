//! The names that the user gave values and weights by: each must be one of the document, or it was a slip.

use serde_json::Value;

use super::super::set::Text;
use super::document::Document;
use super::error::OpenApiError;
use super::operation::Operation;
use super::{OpenApiOptions, parameter};

/// Values and weights of the user, and which of them there was something for.
#[derive(Debug)]
pub(super) struct Names<'d> {
    options: &'d OpenApiOptions,
    used_values: Vec<bool>,
    used_weights: Vec<bool>,
    parameters: Vec<String>,
    operations: Vec<String>,
}

impl<'d> Names<'d> {
    pub(super) fn new(options: &'d OpenApiOptions, document: Document<'d>) -> Self {
        let is_key = |name: &str| {
            document.schemes().any(|scheme| scheme.get("name").and_then(Value::as_str) == Some(name))
        };
        Self {
            options,
            used_values: options.values.iter().map(|(name, _)| is_key(name)).collect(),
            used_weights: vec![false; options.weights.len()],
            parameters: Vec::new(),
            operations: Vec::new(),
        }
    }

    /// Sees which names an operation has, whether it is sent or not.
    pub(super) fn look(&mut self, name: &str, operation: &Operation<'d>) {
        if self.operations.len() < NAMES_SHOWN_MAX {
            self.operations.push(name.to_owned());
        }
        let of_operation = self.options.weights.iter().zip(&mut self.used_weights);
        for ((known, _), used) in of_operation {
            *used |= known == name || operation.id() == Some(known);
        }
        if self.options.values.is_empty() {
            return;
        }
        for parameter in
            parameter::of(operation.document, operation.item, operation.described).unwrap_or_default()
        {
            let known = self.options.values.iter().zip(&mut self.used_values);
            known.filter(|((known, _), _)| known == parameter.name).for_each(|(_, used)| *used = true);
            let is_new = !self.parameters.iter().any(|known| known == parameter.name);
            if is_new && self.parameters.len() < NAMES_SHOWN_MAX {
                self.parameters.push(parameter.name.to_owned());
            }
        }
    }

    /// The value that the user gave by this name.
    pub(super) fn value(&mut self, name: &str) -> Option<&'d Text> {
        let number = self.options.values.iter().position(|(known, _)| known == name)?;
        self.used_values[number] = true;
        Some(&self.options.values[number].1)
    }

    /// How often an operation is drawn.
    pub(super) fn weight(&self, name: &str, operation: &Operation<'d>) -> Result<u32, OpenApiError> {
        let given =
            self.options.weights.iter().find(|(known, _)| known == name || operation.id() == Some(known));
        if let Some((_, weight)) = given {
            return Ok(*weight);
        }
        let Some(stated) = operation.described.get("x-weight") else { return Ok(1) };
        let weight = stated.as_u64().and_then(|weight| u32::try_from(weight).ok());
        weight.ok_or_else(|| OpenApiError::Document {
            found: format!("the x-weight of {name} is no whole number"),
        })
    }

    /// Whether there was something for each of them.
    pub(super) fn all_were_there(self) -> Result<(), OpenApiError> {
        let unused = |used: &[bool]| used.iter().position(|used| !used);
        if let Some(number) = unused(&self.used_values) {
            let name = self.options.values[number].0.clone();
            return Err(OpenApiError::Unknown { what: "parameter", name, others: self.parameters });
        }
        match unused(&self.used_weights) {
            None => Ok(()),
            Some(number) => {
                let name = self.options.weights[number].0.clone();
                Err(OpenApiError::Unknown { what: "operation", name, others: self.operations })
            }
        }
    }
}

impl<'d> Operation<'d> {
    /// Its name for programs.
    pub(super) fn id(&self) -> Option<&'d str> {
        self.described.get("operationId").and_then(Value::as_str)
    }
}

const NAMES_SHOWN_MAX: usize = 12;
