//! An ONNX model as bytes, written without its libraries. The field numbers are those of `onnx.proto`.

use crate::record::protobuf::{put_bytes, put_float, put_number};

/// Of the operators that are used, LayerNormalization is the newest; this version has it.
const OPSET: u64 = 17;
/// The version of the file format that came with it.
const IR_VERSION: u64 = 8;

const MODEL_IR_VERSION: u64 = 1;
const MODEL_PRODUCER: u64 = 2;
const MODEL_PRODUCER_VERSION: u64 = 3;
const MODEL_GRAPH: u64 = 7;
const MODEL_OPSET: u64 = 8;
const MODEL_METADATA: u64 = 14;
const OPSET_VERSION: u64 = 2;
const ENTRY_KEY: u64 = 1;
const ENTRY_VALUE: u64 = 2;

const GRAPH_NODE: u64 = 1;
const GRAPH_NAME: u64 = 2;
const GRAPH_TENSOR: u64 = 5;
const GRAPH_INPUT: u64 = 11;
const GRAPH_OUTPUT: u64 = 12;

const NODE_INPUT: u64 = 1;
const NODE_OUTPUT: u64 = 2;
const NODE_NAME: u64 = 3;
const NODE_OPERATOR: u64 = 4;
const NODE_ATTRIBUTE: u64 = 5;
const ATTRIBUTE_NAME: u64 = 1;
const ATTRIBUTE_FLOAT: u64 = 2;
const ATTRIBUTE_INT: u64 = 3;
const ATTRIBUTE_TYPE: u64 = 20;
const TYPE_FLOAT: u64 = 1;
const TYPE_INT: u64 = 2;

const TENSOR_DIMENSION: u64 = 1;
const TENSOR_TYPE: u64 = 2;
const TENSOR_NAME: u64 = 8;
const TENSOR_DATA: u64 = 9;

const VALUE_NAME: u64 = 1;
const VALUE_TYPE: u64 = 2;
const VALUE_DOC: u64 = 3;
const TYPE_TENSOR: u64 = 1;
const TENSOR_ELEMENT: u64 = 1;
const TENSOR_SHAPE: u64 = 2;
const SHAPE_DIMENSION: u64 = 1;
const DIMENSION_VALUE: u64 = 1;
const DIMENSION_NAME: u64 = 2;

/// What a tensor holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Element {
    Float = 1,
    Int = 7,
}

/// One axis of an input or output.
#[derive(Clone, Debug, PartialEq)]
pub enum Axis {
    /// Any number; axes of the same name are equally long.
    Any(&'static str),
    Fixed(usize),
}

/// An operator's attribute.
pub enum Attribute {
    Float(&'static str, f32),
    Int(&'static str, i64),
}

/// An input or output of the graph.
pub struct Value {
    pub name: &'static str,
    pub element: Element,
    pub shape: Vec<Axis>,
    pub doc: &'static str,
}

/// A graph as it grows: values are known by name.
#[derive(Default)]
pub struct Graph {
    bytes: Vec<u8>,
}

impl Graph {
    fn tensor(&mut self, name: &str, element: Element, shape: &[usize], data: &[u8]) {
        let mut tensor = Vec::new();
        shape.iter().for_each(|n| put_number(&mut tensor, TENSOR_DIMENSION, *n as u64));
        put_number(&mut tensor, TENSOR_TYPE, element as u64);
        put_bytes(&mut tensor, TENSOR_NAME, name.as_bytes());
        put_bytes(&mut tensor, TENSOR_DATA, data);
        put_bytes(&mut self.bytes, GRAPH_TENSOR, &tensor);
    }

    /// A constant of real numbers; a single number where there is no shape.
    pub fn floats(&mut self, name: &str, shape: &[usize], values: &[f32]) {
        let data: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        self.tensor(name, Element::Float, shape, &data);
    }

    /// A constant of whole numbers, likewise.
    pub fn ints(&mut self, name: &str, shape: &[usize], values: &[usize]) {
        let data: Vec<u8> = values.iter().flat_map(|x| (*x as i64).to_le_bytes()).collect();
        self.tensor(name, Element::Int, shape, &data);
    }

    /// An operator, named after its first output.
    pub fn node(&mut self, operator: &str, inputs: &[&str], outputs: &[&str], attributes: &[Attribute]) {
        let mut node = Vec::new();
        inputs.iter().for_each(|name| put_bytes(&mut node, NODE_INPUT, name.as_bytes()));
        outputs.iter().for_each(|name| put_bytes(&mut node, NODE_OUTPUT, name.as_bytes()));
        put_bytes(&mut node, NODE_NAME, outputs[0].as_bytes());
        put_bytes(&mut node, NODE_OPERATOR, operator.as_bytes());
        for attribute in attributes {
            let mut own = Vec::new();
            match attribute {
                Attribute::Float(name, x) => {
                    put_bytes(&mut own, ATTRIBUTE_NAME, name.as_bytes());
                    put_float(&mut own, ATTRIBUTE_FLOAT, *x);
                    put_number(&mut own, ATTRIBUTE_TYPE, TYPE_FLOAT);
                }
                Attribute::Int(name, x) => {
                    put_bytes(&mut own, ATTRIBUTE_NAME, name.as_bytes());
                    // Negative numbers are written as their two's complement.
                    put_number(&mut own, ATTRIBUTE_INT, *x as u64);
                    put_number(&mut own, ATTRIBUTE_TYPE, TYPE_INT);
                }
            }
            put_bytes(&mut node, NODE_ATTRIBUTE, &own);
        }
        put_bytes(&mut self.bytes, GRAPH_NODE, &node);
    }

    /// The whole model.
    pub fn model(mut self, inputs: &[Value], outputs: &[Value], metadata: &[(String, String)]) -> Vec<u8> {
        put_bytes(&mut self.bytes, GRAPH_NAME, b"policy");
        inputs.iter().for_each(|value| put_bytes(&mut self.bytes, GRAPH_INPUT, &value.bytes()));
        outputs.iter().for_each(|value| put_bytes(&mut self.bytes, GRAPH_OUTPUT, &value.bytes()));
        let mut model = Vec::new();
        put_number(&mut model, MODEL_IR_VERSION, IR_VERSION);
        put_bytes(&mut model, MODEL_PRODUCER, b"p3o");
        put_bytes(&mut model, MODEL_PRODUCER_VERSION, env!("CARGO_PKG_VERSION").as_bytes());
        put_bytes(&mut model, MODEL_GRAPH, &self.bytes);
        // Without a domain it is that of ONNX itself.
        put_bytes(&mut model, MODEL_OPSET, &message(|m| put_number(m, OPSET_VERSION, OPSET)));
        for (key, value) in metadata {
            let entry = message(|m| {
                put_bytes(m, ENTRY_KEY, key.as_bytes());
                put_bytes(m, ENTRY_VALUE, value.as_bytes());
            });
            put_bytes(&mut model, MODEL_METADATA, &entry);
        }
        model
    }
}

impl Value {
    fn bytes(&self) -> Vec<u8> {
        let dimension = |axis: &Axis| {
            message(|m| match axis {
                Axis::Any(name) => put_bytes(m, DIMENSION_NAME, name.as_bytes()),
                Axis::Fixed(n) => put_number(m, DIMENSION_VALUE, *n as u64),
            })
        };
        let shape = message(|m| self.shape.iter().for_each(|axis| put_bytes(m, SHAPE_DIMENSION, &dimension(axis))));
        let tensor = message(|m| {
            put_number(m, TENSOR_ELEMENT, self.element as u64);
            put_bytes(m, TENSOR_SHAPE, &shape);
        });
        message(|m| {
            put_bytes(m, VALUE_NAME, self.name.as_bytes());
            put_bytes(m, VALUE_TYPE, &message(|m| put_bytes(m, TYPE_TENSOR, &tensor)));
            put_bytes(m, VALUE_DOC, self.doc.as_bytes());
        })
    }
}

fn message(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(&mut bytes);
    bytes
}
