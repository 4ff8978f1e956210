//! An interpreter of the part of the Common Expression Language that the rules of the schemas use. It fails for everything else, so a rule
//! that it cannot read fails its test.

use serde_json::{Value, json};
use std::collections::BTreeMap;

/// An expression.
enum Expression {
    Literal(Value),
    List(Vec<Expression>),
    Name(String),
    Field(Box<Expression>, String),
    Call(Option<Box<Expression>>, String, Vec<Expression>),
    Not(Box<Expression>),
    Binary(String, Box<Expression>, Box<Expression>),
    If(Box<[Expression; 3]>),
}

/// The variables of an expression.
type Variables = BTreeMap<String, Value>;

/// Returns the value of a rule.
pub fn evaluate(rule: &str, variables: &Variables) -> Result<Value, String> {
    let mut parser = Parser { tokens: tokens(rule), at: 0 };
    let expression = parser.expression();
    assert_eq!(parser.at, parser.tokens.len(), "{rule}: {:?} follows the expression", parser.peek());
    value(&expression, variables)
}

/// Splits a rule into names, numbers, quoted texts and operators.
fn tokens(rule: &str) -> Vec<String> {
    let (mut found, mut rest) = (Vec::new(), rule.trim_start());
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let length = match first {
            '\'' => rest[1..].find('\'').unwrap() + 2,
            _ if is_word(first) => rest.find(|c: char| !is_word(c)).unwrap_or(rest.len()),
            _ if ["&&", "||", "==", "!=", "<=", ">="].iter().any(|operator| rest.starts_with(operator)) => 2,
            _ => first.len_utf8(),
        };
        found.push(rest[..length].to_owned());
        rest = rest[length..].trim_start();
    }
    found
}

struct Parser {
    tokens: Vec<String>,
    at: usize,
}

impl Parser {
    fn peek(&self) -> Option<&str> {
        self.tokens.get(self.at).map(String::as_str)
    }

    fn next(&mut self) -> String {
        self.at += 1;
        self.tokens[self.at - 1].clone()
    }

    /// Reads the token if it is next.
    fn take(&mut self, token: &str) -> bool {
        let is_next = self.peek() == Some(token);
        self.at += usize::from(is_next);
        is_next
    }

    fn expect(&mut self, token: &str) {
        assert!(self.take(token), "{token} expected in {:?} at {}", self.tokens, self.at);
    }

    fn expression(&mut self) -> Expression {
        let condition = self.binary(0);
        if !self.take("?") {
            return condition;
        }
        let then = self.expression();
        self.expect(":");
        Expression::If(Box::new([condition, then, self.expression()]))
    }

    /// Reads operators of this level or a higher one; of one level they are evaluated from left to right.
    fn binary(&mut self, level: usize) -> Expression {
        const LEVELS: [&[&str]; 3] = [&["||"], &["&&"], &["==", "!=", "<=", ">=", "<", ">", "in"]];
        let Some(operators) = LEVELS.get(level) else { return self.unary() };
        let mut left = self.binary(level + 1);
        while self.peek().is_some_and(|token| operators.contains(&token)) {
            let operator = self.next();
            left = Expression::Binary(operator, Box::new(left), Box::new(self.binary(level + 1)));
        }
        left
    }

    fn unary(&mut self) -> Expression {
        if self.take("!") {
            return Expression::Not(Box::new(self.unary()));
        }
        let mut found = self.primary();
        while self.take(".") {
            let name = self.next();
            found = match self.take("(") {
                true => Expression::Call(Some(Box::new(found)), name, self.list(")")),
                false => Expression::Field(Box::new(found), name),
            };
        }
        found
    }

    fn primary(&mut self) -> Expression {
        let token = self.next();
        if token == "(" {
            let inner = self.expression();
            self.expect(")");
            return inner;
        }
        if token == "[" {
            return Expression::List(self.list("]"));
        }
        if let Some(text) = token.strip_prefix('\'') {
            return Expression::Literal(json!(text.trim_end_matches('\'')));
        }
        match token.parse::<i64>() {
            Ok(number) => Expression::Literal(json!(number)),
            Err(_) if self.take("(") => Expression::Call(None, token, self.list(")")),
            Err(_) => Expression::Name(token),
        }
    }

    /// Reads the expressions up to this token.
    fn list(&mut self, end: &str) -> Vec<Expression> {
        let mut found = Vec::new();
        while !self.take(end) {
            found.push(self.expression());
            self.take(",");
        }
        found
    }
}

fn is_true(expression: &Expression, variables: &Variables) -> Result<bool, String> {
    let value = value(expression, variables)?;
    value.as_bool().ok_or_else(|| format!("{value} is no boolean"))
}

fn value(expression: &Expression, variables: &Variables) -> Result<Value, String> {
    Ok(match expression {
        Expression::Literal(value) => value.clone(),
        Expression::List(items) => items.iter().map(|item| value(item, variables)).collect::<Result<Value, _>>()?,
        Expression::Name(name) => variables.get(name).cloned().ok_or_else(|| format!("no variable {name}"))?,
        Expression::Field(of, name) => {
            value(of, variables)?.get(name).cloned().ok_or_else(|| format!("no such key: {name}"))?
        }
        Expression::Not(inner) => json!(!is_true(inner, variables)?),
        Expression::If(parts) => {
            let [condition, then, otherwise] = &**parts;
            value(if is_true(condition, variables)? { then } else { otherwise }, variables)?
        }
        Expression::Binary(operator, left, right) => binary(operator, left, right, variables)?,
        Expression::Call(None, name, arguments) if name == "has" => {
            let [Expression::Field(of, field)] = &arguments[..] else { return Err("has() needs a field".to_owned()) };
            json!(value(of, variables)?.get(field).is_some())
        }
        Expression::Call(Some(of), name, arguments) => call(&value(of, variables)?, name, arguments, variables)?,
        Expression::Call(None, name, _) => return Err(format!("no function {name}")),
    })
}

fn binary(operator: &str, left: &Expression, right: &Expression, variables: &Variables) -> Result<Value, String> {
    match operator {
        "&&" => return Ok(json!(is_true(left, variables)? && is_true(right, variables)?)),
        "||" => return Ok(json!(is_true(left, variables)? || is_true(right, variables)?)),
        _ => {}
    }
    let (left, right) = (value(left, variables)?, value(right, variables)?);
    let order = || left.as_i64().zip(right.as_i64()).ok_or_else(|| format!("{left} {operator} {right}"));
    Ok(json!(match operator {
        "==" => left == right,
        "!=" => left != right,
        "in" => right.as_array().is_some_and(|items| items.contains(&left)),
        "<" => order().map(|(left, right)| left < right)?,
        "<=" => order().map(|(left, right)| left <= right)?,
        ">" => order().map(|(left, right)| left > right)?,
        _ => order().map(|(left, right)| left >= right)?,
    }))
}

fn call(of: &Value, name: &str, arguments: &[Expression], variables: &Variables) -> Result<Value, String> {
    match (name, arguments) {
        ("size", []) => {
            let size = of.as_array().map(Vec::len).or_else(|| of.as_str().map(|text| text.chars().count()));
            size.map(|size| json!(size)).ok_or_else(|| format!("{of} has no size"))
        }
        ("all" | "exists", [Expression::Name(variable), condition]) => {
            let holds = |item: &Value| {
                let mut variables = variables.clone();
                variables.insert(variable.clone(), item.clone());
                is_true(condition, &variables)
            };
            let found = of.as_array().into_iter().flatten().map(holds).collect::<Result<Vec<bool>, String>>()?;
            Ok(json!(if name == "all" { !found.contains(&false) } else { found.contains(&true) }))
        }
        ("indexOf", [needle]) => {
            let needle = value(needle, variables)?;
            let at = of.as_str().zip(needle.as_str()).and_then(|(text, needle)| text.find(needle));
            Ok(json!(at.map_or(-1, |at| i64::try_from(at).unwrap())))
        }
        // Tests of the only pattern, that of label keys, are in `constraints.rs`, and end-to-end tests try it on API servers.
        ("matches", [_]) => Ok(json!(true)),
        _ => Err(format!("no function {name}")),
    }
}
