// SPDX-License-Identifier: Apache-2.0
//! [`Network`]: the policy's network, computed in plain loops.

use super::arithmetic::tanh;

/// The most units in a layer.
pub const MOST_UNITS: usize = 256;

/// Activation of the last unit, which gives the mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// Its tanh.
    Tanh,
    /// Itself.
    Linear,
}

/// So many units are computed side by side: their sums stay in registers.
const LANES: usize = 8;

/// A layer of units, each joined to all of the layer before.
#[derive(Debug, Clone, PartialEq)]
struct Layer {
    units: usize,
    /// For each group of units and each unit before it: the weights of the group. Each sum is made in the order of its
    /// inputs, whatever the group's size. The last group is filled up with zeros.
    weights: Vec<[f32; LANES]>,
    /// For each group.
    bias: Vec<[f32; LANES]>,
}

impl Layer {
    fn new(rows: &[Vec<f32>], bias: &[f32]) -> Layer {
        let group = |first: usize, of: &dyn Fn(usize) -> f32| -> [f32; LANES] {
            std::array::from_fn(|lane| if first + lane < rows.len() { of(first + lane) } else { 0.0 })
        };
        let firsts = || (0..rows.len()).step_by(LANES);
        let before = rows.first().map_or(0, Vec::len);
        let weights = firsts().flat_map(|first| (0..before).map(move |input| (first, input)));
        let weights = weights.map(|(first, input)| group(first, &|unit| rows[unit][input])).collect();
        let bias = firsts().map(|first| group(first, &|unit| bias[unit])).collect();
        Layer { units: rows.len(), weights, bias }
    }

    fn sums(&self, inputs: &[f64]) -> Vec<f64> {
        let mut all = Vec::with_capacity(self.bias.len() * LANES);
        for (weights, bias) in self.weights.chunks_exact(inputs.len()).zip(&self.bias) {
            let mut sums = bias.map(f64::from);
            for (input, weights) in inputs.iter().zip(weights) {
                for (sum, weight) in sums.iter_mut().zip(weights) {
                    *sum += input * f64::from(*weight);
                }
            }
            all.extend(sums);
        }
        all.truncate(self.units);
        all
    }
}

/// A network of layers with tanh between them and one unit at the end.
#[derive(Debug, Clone, PartialEq)]
pub struct Network {
    layers: Vec<Layer>,
    output: Output,
    inputs: usize,
}

impl Network {
    /// Of layers, each as the weights of its units (one of each unit of the layer before) and their biases.
    ///
    /// # Errors
    /// Shapes that don't fit: the layer, its shape and the right one.
    pub fn new(inputs: usize, layers: Vec<(Vec<Vec<f32>>, Vec<f32>)>, output: Output) -> Result<Network, String> {
        let last = layers.len().checked_sub(1).ok_or("layers: none, expected 1 to 4")?;
        let mut before = inputs;
        let mut made = Vec::new();
        for (n, (rows, bias)) in layers.into_iter().enumerate() {
            let units = rows.len();
            if !(1..=MOST_UNITS).contains(&units) {
                return Err(format!("layers[{n}].weights: {units} units, expected 1 to {MOST_UNITS}"));
            }
            if n == last && units != 1 {
                return Err(format!("layers[{n}].weights: {units} units in the last layer, expected 1"));
            }
            if bias.len() != units {
                return Err(format!("layers[{n}].bias: {} numbers, expected {units}", bias.len()));
            }
            if let Some((unit, row)) = rows.iter().enumerate().find(|(_, row)| row.len() != before) {
                return Err(format!("layers[{n}].weights[{unit}]: {} numbers, expected {before}", row.len()));
            }
            if rows.iter().flatten().chain(&bias).any(|number| !number.is_finite()) {
                return Err(format!("layers[{n}]: a number that is not finite, expected finite ones"));
            }
            made.push(Layer::new(&rows, &bias));
            before = units;
        }
        Ok(Network { layers: made, output, inputs })
    }

    /// Number of inputs.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// The mean of the action, before its deviation and its bounds. Not finite if an input is not, or a sum grows too
    /// large.
    pub fn mean(&self, inputs: &[f64]) -> f64 {
        debug_assert_eq!(inputs.len(), self.inputs);
        let mut values = inputs.to_vec();
        for (n, layer) in self.layers.iter().enumerate() {
            values = layer.sums(&values);
            if n + 1 < self.layers.len() || self.output == Output::Tanh {
                values.iter_mut().for_each(|value| *value = tanh(*value));
            }
        }
        values.first().copied().unwrap_or(f64::NAN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_the_rows() {
        let layers = vec![(vec![vec![1.0, 2.0], vec![-1.0, 0.5]], vec![0.25, 0.0]), (vec![vec![2.0, 4.0]], vec![1.0])];
        let network = Network::new(2, layers.clone(), Output::Linear).unwrap();
        let hidden = [tanh(0.25 + 3.0 + 2.0 * 0.5), tanh(-3.0 + 0.5 * 0.5)];
        let sum = 1.0 + hidden[0] * 2.0 + hidden[1] * 4.0;
        assert_eq!(network.mean(&[3.0, 0.5]), sum);
        assert_eq!(Network::new(2, layers, Output::Tanh).unwrap().mean(&[3.0, 0.5]), tanh(sum));
    }

    #[test]
    fn a_number_that_is_not_finite_is_not_hidden() {
        let network = Network::new(1, vec![(vec![vec![0.0]], vec![0.0])], Output::Tanh).unwrap();
        assert_eq!(network.mean(&[5.0]), 0.0);
        assert!(network.mean(&[f64::NAN]).is_nan() && network.mean(&[f64::INFINITY]).is_nan());
    }

    #[test]
    fn shapes_that_do_not_fit_are_named() {
        let refused = |layers| Network::new(2, layers, Output::Tanh).unwrap_err();
        assert_eq!(refused(vec![]), "layers: none, expected 1 to 4");
        let unit = |n: usize| vec![0.0f32; n];
        assert_eq!(refused(vec![(vec![unit(3)], unit(1))]), "layers[0].weights[0]: 3 numbers, expected 2");
        assert_eq!(refused(vec![(vec![unit(2)], unit(2))]), "layers[0].bias: 2 numbers, expected 1");
        assert!(refused(vec![(vec![unit(2); 2], unit(2))]).contains("2 units in the last layer"));
        assert!(refused(vec![(vec![unit(2); 257], unit(257)), (vec![unit(257)], unit(1))]).contains("257 units"));
        assert!(refused(vec![(vec![vec![0.0, f32::NAN]], unit(1))]).contains("not finite"));
    }
}
