//! Requests of somebody who should not make them, as they go over the wire: any path, any patch.

use http::Method;
use http::header::CONTENT_TYPE;
use kube::Client;
use serde_json::Value;

/// A request.
#[derive(Clone, Debug)]
pub struct Call {
    method: Method,
    path: String,
    content: &'static str,
    body: Vec<u8>,
}

impl Call {
    /// A strategic merge patch, for the API server's own kinds.
    pub fn patch(path: &str, body: &Value) -> Self {
        Self::new(Method::PATCH, path, "application/strategic-merge-patch+json", body)
    }

    /// A merge patch, for every kind.
    pub fn merge(path: &str, body: &Value) -> Self {
        Self::new(Method::PATCH, path, "application/merge-patch+json", body)
    }

    /// A replacement.
    pub fn put(path: &str, body: &Value) -> Self {
        Self::new(Method::PUT, path, "application/json", body)
    }

    /// A creation.
    pub fn post(path: &str, body: &Value) -> Self {
        Self::new(Method::POST, path, "application/json", body)
    }

    /// A read.
    pub fn get(path: &str) -> Self {
        Self::new(Method::GET, path, "application/json", &Value::Null)
    }

    /// A deletion.
    pub fn delete(path: &str) -> Self {
        Self::new(Method::DELETE, path, "application/json", &serde_json::json!({}))
    }

    fn new(method: Method, path: &str, content: &'static str, body: &Value) -> Self {
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        Self { method, path: path.to_owned(), content, body }
    }

    /// The same request without effect: admission is asked, and nothing is stored.
    #[must_use]
    pub fn dry(mut self) -> Self {
        self.path += "?dryRun=All";
        self
    }

    /// Makes the request.
    ///
    /// # Errors
    /// It was refused; the API server's words.
    ///
    /// # Panics
    /// The API server did not answer.
    pub async fn make(&self, client: &Client) -> Result<Value, String> {
        let request = http::Request::builder().method(&self.method).uri(&self.path).header(CONTENT_TYPE, self.content);
        match client.request::<Value>(request.body(self.body.clone()).unwrap()).await {
            Ok(answer) => Ok(answer),
            Err(kube::Error::Api(status)) => Err(status.message),
            Err(error) => panic!("{} {}: {error}", self.method, self.path),
        }
    }

    /// Expects that the request is refused with these words.
    ///
    /// # Panics
    /// It is allowed, or refused for another reason.
    pub async fn refused(&self, client: &Client, what: &str, words: &str) {
        match self.make(client).await {
            Ok(_) => panic!("{what}: allowed, and should be refused with: {words}"),
            Err(said) => assert!(said.contains(words), "{what}: refused with other words:\n{said}\nwanted: {words}"),
        }
    }

    /// Expects that the request is allowed.
    ///
    /// # Panics
    /// It is refused.
    pub async fn allowed(&self, client: &Client, what: &str) -> Value {
        self.make(client).await.unwrap_or_else(|said| panic!("{what}: refused: {said}"))
    }
}
