"use strict";
// Shows the description at openapi.json. Everything is put in as text, never as markup.

const el = (tag, text, ...children) => {
  const node = document.createElement(tag);
  if (text) node.textContent = text;
  node.append(...children);
  return node;
};
const withClass = (node, name) => (node.classList.add(name), node);

// A text in which what stands between two backticks is code.
const prose = (tag, text) =>
  el(tag, "", ...(text || "").split("`").map((part, index) => (index % 2 ? el("code", part) : part)));

// What whoever comes for the first time looks for stands first; what is not named here, behind it.
const ORDER = ["queues", "messages", "dead letters", "sessions", "leases", "elections", "members"];
const place = (tag) => (ORDER.includes(tag) ? ORDER.indexOf(tag) : ORDER.length);

// A schema in one line, or as far as its name.
const short = (schema) => {
  if (!schema) return "any";
  if (schema.$ref) return schema.$ref.split("/").pop();
  const some = schema.anyOf || schema.oneOf || schema.allOf;
  if (some) return some.map(short).join(" | ");
  if (schema.enum) return schema.enum.map((v) => JSON.stringify(v)).join(" | ");
  const type = [].concat(schema.type || "any").join(" | ");
  if (schema.items) return `${type} of ${short(schema.items)}`;
  const limits = ["minimum", "maximum", "maxLength", "pattern", "format"]
    .filter((key) => schema[key] !== undefined)
    .map((key) => `${key} ${schema[key]}`);
  return limits.length ? `${type} (${limits.join(", ")})` : type;
};

const fields = (schema) => {
  const table = el("table");
  for (const [name, field] of Object.entries(schema.properties || {})) {
    const required = (schema.required || []).includes(name) ? " *" : "";
    const row = el("tr", "", el("td", "", el("code", name + required)), el("td", "", el("code", short(field))));
    row.append(withClass(prose("td", field.description), "dim"));
    table.append(row);
  }
  if (!table.children.length) {
    const variants = (schema.oneOf || []).map((v) => `${short(v)}  ${v.description || ""}`);
    return el("pre", variants.length ? variants.join("\n") : short(schema));
  }
  return table;
};

const content = (title, body) => {
  const list = el("div");
  for (const [type, media] of Object.entries((body && body.content) || {})) {
    list.append(el("p", "", el("strong", title + " "), el("code", `${type}: ${short(media.schema)}`)));
  }
  return list;
};

const operation = (path, method, op) => {
  const name = withClass(el("code", method.toUpperCase()), "method");
  const summary = el("summary", "", name, el("code", path + " "), withClass(prose("span", op.summary), "dim"));
  const details = el("details", "", summary);
  if (op.description) details.append(prose("p", op.description));
  const table = el("table");
  for (const parameter of op.parameters || []) {
    const where = `${parameter.name} (${parameter.in})${parameter.required ? " *" : ""}`;
    const row = el("tr", "", el("td", "", el("code", where)), el("td", "", el("code", short(parameter.schema))));
    row.append(withClass(prose("td", parameter.description), "dim"));
    table.append(row);
  }
  details.append(table, content("takes", op.requestBody));
  const answers = el("table");
  for (const [status, answer] of Object.entries(op.responses || {})) {
    const shapes = Object.entries(answer.content || {}).map(([type, media]) => `${type}: ${short(media.schema)}`);
    const row = el("tr", "", el("td", "", el("code", status)), prose("td", answer.description));
    row.append(el("td", "", el("code", shapes.join("; "))));
    answers.append(row);
  }
  details.append(el("p", "", el("strong", "answers")), answers);
  details.dataset.text = `${method} ${path} ${op.summary || ""} ${op.description || ""}`.toLowerCase();
  return details;
};

const show = (api) => {
  document.getElementById("about").textContent = `${api.info.title} ${api.info.version}. ${api.info.description}`;
  const groups = new Map();
  for (const [path, item] of Object.entries(api.paths)) {
    for (const method of ["get", "put", "post", "patch", "delete"]) {
      if (!item[method]) continue;
      const tag = (item[method].tags || ["other"])[0];
      if (!groups.has(tag)) groups.set(tag, el("section", "", el("h2", tag)));
      groups.get(tag).append(operation(path, method, item[method]));
    }
  }
  const sections = [...groups].sort(([a], [b]) => place(a) - place(b));
  document.getElementById("paths").append(...sections.map(([, section]) => section));
  for (const [name, schema] of Object.entries(api.components.schemas)) {
    const details = el("details", "", el("summary", "", el("code", name)));
    details.append(prose("p", schema.description), fields(schema));
    document.getElementById("schemas").append(details);
  }
  document.getElementById("filter").addEventListener("input", (event) => {
    const wanted = event.target.value.toLowerCase();
    for (const node of document.querySelectorAll("main details")) {
      node.hidden = !node.dataset.text.includes(wanted);
    }
  });
};

fetch("openapi.json")
  .then((answer) => answer.json())
  .then(show)
  .catch((why) => (document.getElementById("about").textContent = `cannot show it: ${why}`));
