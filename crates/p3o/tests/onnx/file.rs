//! An ONNX file read back, by the field numbers of `onnx.proto`.

use super::interpreter::Tensor;
use std::collections::BTreeMap;

/// What stands in a field of a message.
#[derive(Clone, Copy, Debug)]
enum Field<'a> {
    Number(u64),
    Float(f32),
    Bytes(&'a [u8]),
}

impl<'a> Field<'a> {
    fn number(self) -> u64 {
        if let Field::Number(x) = self { x } else { panic!("{self:?} is not a number") }
    }

    fn bytes(self) -> &'a [u8] {
        if let Field::Bytes(x) = self { x } else { panic!("{self:?} is not bytes") }
    }

    fn text(self) -> String {
        String::from_utf8(self.bytes().to_vec()).unwrap()
    }
}

/// The fields of a message in order.
struct Message<'a>(Vec<(u64, Field<'a>)>);

impl<'a> Message<'a> {
    fn read(mut bytes: &'a [u8]) -> Self {
        fn varint(bytes: &mut &[u8]) -> u64 {
            let mut value = 0;
            for shift in (0..).step_by(7) {
                let byte = bytes[0];
                *bytes = &bytes[1..];
                value |= u64::from(byte & 0x7f) << shift;
                if byte < 0x80 {
                    return value;
                }
            }
            unreachable!()
        }
        let mut fields = Vec::new();
        while !bytes.is_empty() {
            let key = varint(&mut bytes);
            let field = match key & 7 {
                0 => Field::Number(varint(&mut bytes)),
                2 => {
                    let length = varint(&mut bytes) as usize;
                    let (own, rest) = bytes.split_at(length);
                    bytes = rest;
                    Field::Bytes(own)
                }
                5 => {
                    let (own, rest) = bytes.split_at(4);
                    bytes = rest;
                    Field::Float(f32::from_le_bytes(own.try_into().unwrap()))
                }
                other => panic!("wire type {other}"),
            };
            fields.push((key >> 3, field));
        }
        Message(fields)
    }

    fn all(&self, number: u64) -> impl Iterator<Item = Field<'a>> {
        self.0.iter().filter(move |(n, _)| *n == number).map(|(_, field)| *field)
    }

    /// The only field of this number.
    fn one(&self, number: u64) -> Field<'a> {
        let found: Vec<Field> = self.all(number).collect();
        assert_eq!(found.len(), 1, "field {number}");
        found[0]
    }

    fn message(&self, number: u64) -> Message<'a> {
        Message::read(self.one(number).bytes())
    }
}

pub struct Node {
    pub operator: String,
    pub inputs: Vec<String>,
    pub outputs: Vec<String>,
    pub attributes: BTreeMap<String, f64>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Axis {
    Any(String),
    Fixed(usize),
}

/// An input or output: its name, whether it holds whole numbers, its axes.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    pub name: String,
    pub whole: bool,
    pub shape: Vec<Axis>,
}

pub struct Model {
    pub ir_version: u64,
    pub opset: u64,
    pub producer: (String, String),
    pub nodes: Vec<Node>,
    pub constants: BTreeMap<String, Tensor>,
    pub inputs: Vec<Value>,
    pub outputs: Vec<Value>,
    pub metadata: Vec<(String, String)>,
}

impl Model {
    pub fn read(bytes: &[u8]) -> Model {
        let model = Message::read(bytes);
        let graph = model.message(7);
        let entry = |field: Field| {
            let entry = Message::read(field.bytes());
            (entry.one(1).text(), entry.one(2).text())
        };
        let constants: Vec<(String, Tensor)> = graph.all(5).map(|field| constant(field.bytes())).collect();
        let count = constants.len();
        let constants: BTreeMap<String, Tensor> = constants.into_iter().collect();
        assert_eq!(constants.len(), count, "two constants of one name");
        Model {
            ir_version: model.one(1).number(),
            opset: model.message(8).one(2).number(),
            producer: (model.one(2).text(), model.one(3).text()),
            nodes: graph.all(1).map(|field| node(field.bytes())).collect(),
            constants,
            inputs: graph.all(11).map(|field| value(field.bytes())).collect(),
            outputs: graph.all(12).map(|field| value(field.bytes())).collect(),
            metadata: model.all(14).map(entry).collect(),
        }
    }
}

fn constant(bytes: &[u8]) -> (String, Tensor) {
    let tensor = Message::read(bytes);
    let shape = tensor.all(1).map(|field| field.number() as usize).collect();
    let data = tensor.one(9).bytes();
    let values = match tensor.one(2).number() {
        1 => data.chunks_exact(4).map(|b| f64::from(f32::from_le_bytes(b.try_into().unwrap()))).collect(),
        7 => data.chunks_exact(8).map(|b| i64::from_le_bytes(b.try_into().unwrap()) as f64).collect(),
        other => panic!("data type {other}"),
    };
    (tensor.one(8).text(), Tensor::new(shape, values))
}

fn node(bytes: &[u8]) -> Node {
    let node = Message::read(bytes);
    let texts = |number| node.all(number).map(Field::text).collect();
    let attribute = |field: Field| {
        let attribute = Message::read(field.bytes());
        let value = match attribute.one(20).number() {
            1 => match attribute.one(2) {
                Field::Float(x) => f64::from(x),
                other => panic!("{other:?} is not a float"),
            },
            2 => attribute.one(3).number() as i64 as f64,
            other => panic!("attribute type {other}"),
        };
        (attribute.one(1).text(), value)
    };
    let attributes = node.all(5).map(attribute).collect();
    Node { operator: node.one(4).text(), inputs: texts(1), outputs: texts(2), attributes }
}

fn value(bytes: &[u8]) -> Value {
    let value = Message::read(bytes);
    let tensor = value.message(2).message(1);
    let axis = |field: Field| match Message::read(field.bytes()).0[..] {
        [(1, Field::Number(n))] => Axis::Fixed(n as usize),
        [(2, name)] => Axis::Any(name.text()),
        ref other => panic!("{} fields in an axis", other.len()),
    };
    let whole = match tensor.one(1).number() {
        1 => false,
        7 => true,
        other => panic!("element type {other}"),
    };
    Value { name: value.one(1).text(), whole, shape: tensor.message(2).all(1).map(axis).collect() }
}
