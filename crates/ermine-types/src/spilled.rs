//! The encoding of rows in temporary files: of any values, also of those that no table stores.
//!
//! Each value follows its kind (varint):
//!
//! | kind | value |
//! |---|---|
//! | 0 | NULL: nothing |
//! | 1 | `record`: the number of its fields (varint), its values |
//! | 2 | array of records: the dimensions, each element |
//! | 3 and up | a value of the type with the number kind - 3, as a row of a table has it |
//!
//! Types and fields have the numbers of the order in which they came. They stay in memory: only the statement that
//! wrote a file reads it.

use std::sync::Arc;

use crate::{
    Array, Record, Scalar, SqlType, Value,
    array::Dimension,
    error::Result,
    record::Field,
    row::{Input, damaged, write_value, write_varint},
};

const NULL: u64 = 0;
const RECORD: u64 = 1;
const RECORDS: u64 = 2;
const FIRST_TYPE: u64 = 3;

/// The types of the values in some rows, and the fields of their records.
#[derive(Default, Debug)]
pub struct SpilledTypes {
    types: Vec<SqlType>,
    fields: Vec<Arc<[Field]>>,
}

impl SpilledTypes {
    /// Appends the bytes of a value.
    pub fn write(&mut self, value: &Value, out: &mut Vec<u8>) {
        match value {
            Value::Record(record) => {
                let is_known = |known: &Arc<[Field]>| Arc::ptr_eq(known, record.fields()) || known == record.fields();
                let known = self.fields.iter().position(is_known);
                let number = known.unwrap_or_else(|| {
                    self.fields.push(record.fields().clone());
                    self.fields.len() - 1
                });
                write_varint(RECORD, out);
                write_varint(number as u64, out);
                record.values().iter().for_each(|value| self.write(value, out));
            }
            Value::Array(array) if array.element == Scalar::Record => {
                write_varint(RECORDS, out);
                write_varint(array.dimensions().len() as u64, out);
                for dimension in array.dimensions() {
                    write_varint(dimension.length.into(), out);
                    out.extend_from_slice(&dimension.lower.to_le_bytes());
                }
                array.elements().iter().for_each(|element| self.write(element, out));
            }
            other => match other.natural_type() {
                None => write_varint(NULL, out),
                Some(ty) => {
                    let number = self.types.iter().position(|known| *known == ty).unwrap_or_else(|| {
                        self.types.push(ty);
                        self.types.len() - 1
                    });
                    write_varint(FIRST_TYPE + number as u64, out);
                    write_value(other, out);
                }
            },
        }
    }

    /// Reads the values of a row, one for each place of `row`, and leaves the bytes behind them in `input`. Fails on
    /// bytes that were not written so.
    pub fn read(&self, input: &mut &[u8], row: &mut [Value]) -> Result<()> {
        let mut rest = Input(input);
        row.iter_mut().try_for_each(|place| self.read_value(&mut rest, place))?;
        *input = rest.0;
        Ok(())
    }

    fn read_value(&self, input: &mut Input<'_>, place: &mut Value) -> Result<()> {
        match input.varint()? {
            NULL => *place = Value::Null,
            RECORD => {
                let fields = self.fields.get(input.varint()? as usize).ok_or_else(damaged)?;
                let values = self.read_values(input, fields.len())?;
                *place = Value::Record(Box::new(Record::new(fields.clone(), values)?));
            }
            RECORDS => {
                let dimensions = (0..input.varint()?)
                    .map(|_| {
                        let length = u32::try_from(input.varint()?).map_err(|_| damaged())?;
                        Ok(Dimension { length, lower: i32::from_le_bytes(input.array()?) })
                    })
                    .collect::<Result<Vec<_>>>()?;
                let count = match &dimensions[..] {
                    [] => 0,
                    some => some.iter().map(|dimension| dimension.length as usize).product(),
                };
                let elements = self.read_values(input, count)?;
                let array = Array::with_dimensions(Scalar::Record, &dimensions, elements).ok_or_else(damaged)?;
                *place = Value::array(array);
            }
            kind => {
                let ty = self.types.get((kind - FIRST_TYPE) as usize).ok_or_else(damaged)?;
                input.value_into(*ty, place)?;
            }
        }
        Ok(())
    }

    fn read_values(&self, input: &mut Input<'_>, count: usize) -> Result<Vec<Value>> {
        (0..count)
            .map(|_| {
                let mut value = Value::Null;
                self.read_value(input, &mut value)?;
                Ok(value)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::tests::random_row;

    #[test]
    fn rows_of_any_values_come_back() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut types, mut bytes, mut written) = (SpilledTypes::default(), Vec::new(), Vec::new());
        for _ in 0..2000 {
            let (own, mut values) = random_row(&mut random);
            let names = own.iter().enumerate().map(|(at, ty)| Field { name: at.to_string().into(), ty: *ty });
            let record = Value::Record(Box::new(Record::new(names.collect(), values.clone()).unwrap()));
            let two = Dimension { length: 2, lower: random.i32(-3..3) };
            let elements = vec![record.clone(), Value::Null, record.clone(), record.clone()];
            let square = Array::with_dimensions(Scalar::Record, &[two, two], elements).unwrap();
            values.extend([record, Value::array(square), Value::array(Array::new(Scalar::Record, Vec::new()))]);
            values.iter().for_each(|value| types.write(value, &mut bytes));
            written.push(values);
        }
        let mut input = &bytes[..];
        for values in &written {
            let mut read = vec![Value::Bool(true); values.len()];
            types.read(&mut input, &mut read).unwrap();
            // As text, where NaN is equal to itself.
            assert_eq!(format!("{read:?}"), format!("{values:?}"));
        }
        assert!(input.is_empty());
        assert!(types.fields.len() <= written.len());
        types.read(&mut input, &mut [Value::Null]).unwrap_err();
    }
}
