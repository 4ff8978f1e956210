//! Raw API requests with any path and body, to test which requests of an attacker are rejected.

use http::Method;
use http::header::CONTENT_TYPE;
use kube::Client;
use serde_json::Value;

/// A request to the API server.
#[derive(Clone, Debug)]
pub struct Call {
    method: Method,
    path: String,
    content: &'static str,
    body: Vec<u8>,
}

impl Call {
    /// Returns a strategic merge patch, for built-in kinds.
    pub fn patch(path: &str, body: &Value) -> Self {
        Self::new(Method::PATCH, path, "application/strategic-merge-patch+json", body)
    }

    /// Returns a merge patch, for every kind.
    pub fn merge(path: &str, body: &Value) -> Self {
        Self::new(Method::PATCH, path, "application/merge-patch+json", body)
    }

    /// Returns an update (PUT).
    pub fn put(path: &str, body: &Value) -> Self {
        Self::new(Method::PUT, path, "application/json", body)
    }

    /// Returns a creation (POST).
    pub fn post(path: &str, body: &Value) -> Self {
        Self::new(Method::POST, path, "application/json", body)
    }

    /// Returns a read.
    pub fn get(path: &str) -> Self {
        Self::new(Method::GET, path, "application/json", &Value::Null)
    }

    /// Returns a deletion.
    pub fn delete(path: &str) -> Self {
        Self::new(Method::DELETE, path, "application/json", &serde_json::json!({}))
    }

    fn new(method: Method, path: &str, content: &'static str, body: &Value) -> Self {
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        Self { method, path: path.to_owned(), content, body }
    }

    /// Returns the same request with `dryRun=All`.
    #[must_use]
    pub fn dry(mut self) -> Self {
        self.path += "?dryRun=All";
        self
    }

    /// Sends the request and returns the object in the answer.
    ///
    /// # Errors
    /// The API server's message if it rejected the request.
    ///
    /// # Panics
    /// If the API server does not answer.
    pub async fn make(&self, client: &Client) -> Result<Value, String> {
        let request = http::Request::builder().method(&self.method).uri(&self.path).header(CONTENT_TYPE, self.content);
        match client.request::<Value>(request.body(self.body.clone()).unwrap()).await {
            Ok(answer) => Ok(answer),
            Err(kube::Error::Api(status)) => Err(status.message),
            Err(error) => panic!("{} {}: {error}", self.method, self.path),
        }
    }

    /// Expects that the request is rejected with a message that contains `words`.
    ///
    /// # Panics
    /// If it is accepted or rejected with another message.
    pub async fn refused(&self, client: &Client, what: &str, words: &str) {
        match self.make(client).await {
            Ok(_) => panic!("{what}: accepted, but a rejection was expected: {words}"),
            Err(said) => {
                assert!(said.contains(words), "{what}: rejected with another message:\n{said}\nexpected: {words}")
            }
        }
    }

    /// Expects that the request is accepted, and returns the object in the answer.
    ///
    /// # Panics
    /// If it is rejected.
    pub async fn allowed(&self, client: &Client, what: &str) -> Value {
        self.make(client).await.unwrap_or_else(|said| panic!("{what}: rejected: {said}"))
    }
}
