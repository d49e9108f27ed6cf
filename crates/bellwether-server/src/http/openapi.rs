//! The description of this door (OpenAPI 3.1), derived from the handlers, and a page to read it.

use std::collections::BTreeMap;

use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa::openapi::path::{Operation, Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::request_body::RequestBody;
use utoipa::openapi::schema::{ObjectBuilder, Schema, SchemaType, Type};
use utoipa::openapi::security::{
    ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme,
};
use utoipa::openapi::{
    Content, HttpMethod, InfoBuilder, LicenseBuilder, OpenApi, OpenApiBuilder, PathItem, Ref,
    RefOr, Required, ResponseBuilder, Server,
};

use super::extract::{Path, json};
use super::problem::{Kind, MEDIA_TYPE, Problem, TYPES, Told};

const PAGE: &str = include_str!("docs/page.html");
const SCRIPT: &str = include_str!("docs/page.js");
const STYLE: &str = include_str!("docs/page.css");
/// How an id is written: 32 hexadecimal digits, or a UUID.
const ID: &str = "^([0-9a-fA-F]{32}|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})$";
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";

/// What the description says beside the paths.
pub(crate) fn head() -> OpenApi {
    let license = LicenseBuilder::new().name("MIT OR Apache-2.0");
    let info = InfoBuilder::new()
        .title("Bellwether")
        .version(env!("CARGO_PKG_VERSION"))
        .license(Some(license.build()))
        .description(Some(
            "Leader election and competing consumers, together, on one durable log. \
             docs/http.md says what the parts mean.",
        ));
    OpenApiBuilder::new().info(info).servers(Some([Server::new("/")])).build()
}

/// Adds what is true of every operation: the problems it can end in, and the headers it reads.
pub(crate) fn complete(mut api: OpenApi) -> OpenApi {
    let mut components = api.components.take().unwrap_or_default();
    let mut schemas =
        vec![(Problem::name().into_owned(), <Problem as utoipa::PartialSchema>::schema())];
    Problem::schemas(&mut schemas);
    components.schemas.extend(schemas);
    for item in api.paths.paths.values_mut() {
        for (method, operation) in operations(item) {
            let changes = method != HttpMethod::Get;
            add_problems(operation, changes);
            if let Some(body) = &mut operation.request_body {
                body.required = Some(needed(body, &components.schemas));
            }
            let tag = operation.tags.iter().flatten().next();
            // A member speaks for itself, and may repeat what it says.
            if changes && tag.is_none_or(|tag| tag != "members") {
                operation.parameters.get_or_insert_default().extend(headers());
            }
        }
    }
    let token = HttpBuilder::new().scheme(HttpAuthScheme::Bearer);
    let token = token.description(Some("A token of `bellwether key create`.")).build();
    components.add_security_scheme("token", SecurityScheme::Http(token));
    let signature = "`SharedAccessSignature sr=…&sig=…&se=…&skn=…`, as docs/security.md says.";
    let signature = ApiKeyValue::with_description("Authorization", signature);
    components.add_security_scheme("signature", SecurityScheme::ApiKey(ApiKey::Header(signature)));
    let either = ["token", "signature"].map(|name| SecurityRequirement::new(name, [""; 0]));
    // Or neither: a server asks for credentials only if it is told to.
    api.security = Some(either.into_iter().chain([SecurityRequirement::default()]).collect());
    api.components = Some(components);
    api
}

/// A body of which nothing is needed may be left out.
fn needed(body: &RequestBody, schemas: &BTreeMap<String, RefOr<Schema>>) -> Required {
    let mut fields = body.content.values().filter_map(|content| {
        let Some(RefOr::Ref(named)) = &content.schema else { return None };
        match schemas.get(named.ref_location.rsplit('/').next()?)? {
            RefOr::T(Schema::Object(object)) => Some(&object.required),
            _ => None,
        }
    });
    if fields.any(|required| !required.is_empty()) { Required::True } else { Required::False }
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = (HttpMethod, &mut Operation)> {
    let PathItem { get, put, post, delete, patch, .. } = item;
    let listed = [
        (HttpMethod::Get, get),
        (HttpMethod::Put, put),
        (HttpMethod::Post, post),
        (HttpMethod::Delete, delete),
        (HttpMethod::Patch, patch),
    ];
    listed.into_iter().filter_map(|(method, operation)| Some((method, operation.as_mut()?)))
}

/// Statuses that only a change can end in.
const OF_CHANGES: [u16; 6] = [409, 412, 413, 415, 422, 429];

fn add_problems(operation: &mut Operation, changes: bool) {
    let mut statuses: Vec<u16> = Kind::ALL.iter().map(|kind| kind.facts().1).collect();
    statuses.sort_unstable();
    statuses.dedup();
    // What is not one of the operation's is not its answer.
    statuses.retain(|status| *status != 405 && (changes || !OF_CHANGES.contains(status)));
    if !changes {
        // Sessions can be asked for in a queue that has none.
        statuses.push(409);
    }
    for status in statuses {
        let kinds = Kind::ALL.iter().map(|kind| kind.facts());
        let titles: Vec<_> =
            kinds.filter(|facts| facts.1 == status).map(|(name, _, title)| (name, title)).collect();
        let lines = titles.iter().map(|(name, title)| format!("`{name}`: {title}"));
        let description = lines.collect::<Vec<_>>().join("; ");
        let content = Content::new(Some(Ref::from_schema_name(Problem::name())));
        let response =
            ResponseBuilder::new().description(description).content(MEDIA_TYPE, content).build();
        let responses = &mut operation.responses.responses;
        responses.insert(status.to_string(), RefOr::T(response));
    }
}

fn headers() -> [Parameter; 3] {
    let text = |max: usize| {
        ObjectBuilder::new()
            .schema_type(SchemaType::Type(Type::String))
            .min_length(Some(1))
            .max_length(Some(max))
    };
    let header = |name: &str, description: &str| {
        let description = Some(description.to_owned());
        ParameterBuilder::new()
            .name(name)
            .parameter_in(ParameterIn::Header)
            .description(description)
    };
    let key = header(
        "Idempotency-Key",
        "The same request again under the same key gets the first outcome.",
    );
    let member = header("Bellwether-Member", "The member that asks; the server's own if not said.");
    let fence = header(
        "Fencing-Term",
        "`ELECTION/TERM`, the name percent-encoded: refused unless that term is held.",
    );
    let hex = text(36).pattern(Some(ID));
    [
        key.schema(Some(text(255).pattern(Some("^[!-~]+$")))).build(),
        member.schema(Some(hex)).build(),
        fence.schema(Some(text(801).pattern(Some("^[ -~]+/[0-9]+$")))).build(),
    ]
}

/// The description, as it is asked for.
pub(crate) fn description(api: &OpenApi) -> Response {
    json(api)
}

/// A page that shows the description: nothing of it comes from anywhere else.
pub(crate) async fn page() -> Response {
    let headers = [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (CACHE_CONTROL, "no-cache"),
    ];
    (headers, PAGE).into_response()
}

/// The page's script.
pub(crate) async fn script() -> Response {
    let headers = [(CONTENT_TYPE, "text/javascript; charset=utf-8"), (CACHE_CONTROL, "no-cache")];
    (headers, SCRIPT).into_response()
}

/// The page's style.
pub(crate) async fn style() -> Response {
    let headers = [(CONTENT_TYPE, "text/css; charset=utf-8"), (CACHE_CONTROL, "no-cache")];
    (headers, STYLE).into_response()
}

/// The kinds of problem.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Problems {
    problems: Vec<ProblemKind>,
}

/// One kind of problem.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ProblemKind {
    #[serde(rename = "type")]
    kind: String,
    status: u16,
    title: &'static str,
}

impl From<Kind> for ProblemKind {
    fn from(kind: Kind) -> Self {
        let (name, status, title) = kind.facts();
        Self { kind: format!("{TYPES}{name}"), status, title }
    }
}

/// Every kind of problem there is.
#[utoipa::path(
    get, path = "/v1/problems", tag = "problems",
    responses((status = 200, description = "The kinds of problem", body = Problems))
)]
pub(crate) async fn list_problems() -> Response {
    json(&Problems { problems: Kind::ALL.iter().map(|kind| ProblemKind::from(*kind)).collect() })
}

/// One kind of problem: where a problem's `type` leads.
#[utoipa::path(
    get, path = "/v1/problems/{problem}", tag = "problems",
    params(("problem" = String, Path, description = "Its name", example = "lock-lost")),
    responses((status = 200, description = "The kind of problem", body = ProblemKind))
)]
pub(crate) async fn show_problem(Path(problem): Path<String>) -> Told<Response> {
    let kind = Kind::ALL.iter().find(|kind| kind.facts().0 == problem);
    let kind = kind.ok_or_else(|| {
        let detail = format!("there is no problem {problem:?}; /v1/problems lists them");
        Problem::new(Kind::NoSuchPath, detail)
    })?;
    Ok(json(&ProblemKind::from(*kind)))
}
