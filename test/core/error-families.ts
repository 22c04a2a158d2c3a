// Realistic errors of handlers, in families. The members of a family have the same reason and differ in what varies.

interface Given {
  name?: string;
  code?: string | number;
  status?: number;
  cause?: Error;
  errors?: Error[];
}

/** An error as libraries throw it. */
function error(message: string, { name, cause, errors, ...codes }: Given = {}): Error {
  const made = errors ? new AggregateError(errors, message) : new Error(message, cause && { cause });
  if (name !== undefined) Object.defineProperty(made, "name", { value: name });
  return Object.assign(made, codes);
}

function fetchFailed(message: string, code: string, name = "Error"): Error {
  return error("fetch failed", { name: "TypeError", cause: error(message, { name, code }) });
}

export const FAMILIES: Record<string, Error[]> = {
  "fetch: connection refused": [
    fetchFailed("connect ECONNREFUSED 127.0.0.1:5432", "ECONNREFUSED"),
    fetchFailed("connect ECONNREFUSED 10.2.0.17:80", "ECONNREFUSED"),
    fetchFailed("connect ECONNREFUSED ::1:8080", "ECONNREFUSED"),
  ],
  "fetch: unknown host": [
    fetchFailed("getaddrinfo ENOTFOUND api.example.com", "ENOTFOUND"),
    fetchFailed("getaddrinfo ENOTFOUND billing", "ENOTFOUND"),
    fetchFailed("getaddrinfo ENOTFOUND db-3.internal", "ENOTFOUND"),
  ],
  "fetch: connect timeout": [
    fetchFailed(
      "Connect Timeout Error (attempted address: api.example.com:443, timeout: 10000ms)",
      "UND_ERR_CONNECT_TIMEOUT",
      "ConnectTimeoutError",
    ),
    fetchFailed(
      "Connect Timeout Error (attempted address: 10.0.0.4:8443, timeout: 500ms)",
      "UND_ERR_CONNECT_TIMEOUT",
      "ConnectTimeoutError",
    ),
  ],
  "fetch: other side closed": [
    fetchFailed("other side closed", "UND_ERR_SOCKET", "SocketError"),
    fetchFailed("other side closed", "UND_ERR_SOCKET", "SocketError"),
  ],
  "fetch: certificate expired": [
    fetchFailed("certificate has expired", "CERT_HAS_EXPIRED"),
    fetchFailed("certificate has expired", "CERT_HAS_EXPIRED"),
  ],
  "socket hang up": [
    error("socket hang up", { code: "ECONNRESET" }),
    error("socket hang up", { code: "ECONNRESET" }),
  ],
  "happy eyeballs: refused": [
    error("", {
      code: "ECONNREFUSED",
      errors: [error("connect ECONNREFUSED ::1:5432"), error("connect ECONNREFUSED 127.0.0.1:5432")],
    }),
    error("", { code: "ECONNREFUSED", errors: [error("connect ECONNREFUSED 10.0.0.8:6379")] }),
  ],
  "happy eyeballs: timed out": [
    error("", { code: "ETIMEDOUT", errors: [error("connect ETIMEDOUT 93.184.216.34:443")] }),
    error("", {
      code: "ETIMEDOUT",
      errors: [error("connect ETIMEDOUT 2606:2800:220:1:248:1893:25c8:1946:443")],
    }),
  ],
  "axios 404": [
    error("Request failed with status code 404", {
      name: "AxiosError",
      code: "ERR_BAD_REQUEST",
      status: 404,
    }),
    error("Request failed with status code 404", {
      name: "AxiosError",
      code: "ERR_BAD_REQUEST",
      status: 404,
    }),
  ],
  "axios 429": [
    error("Request failed with status code 429", {
      name: "AxiosError",
      code: "ERR_BAD_REQUEST",
      status: 429,
    }),
    error("Request failed with status code 429", {
      name: "AxiosError",
      code: "ERR_BAD_REQUEST",
      status: 429,
    }),
  ],
  "axios 503": [
    error("Request failed with status code 503", {
      name: "AxiosError",
      code: "ERR_BAD_RESPONSE",
      status: 503,
    }),
    error("Request failed with status code 503", {
      name: "AxiosError",
      code: "ERR_BAD_RESPONSE",
      status: 503,
    }),
  ],
  "axios timeout": [
    error("timeout of 1000ms exceeded", { name: "AxiosError", code: "ECONNABORTED" }),
    error("timeout of 30000ms exceeded", { name: "AxiosError", code: "ECONNABORTED" }),
  ],
  "own check: 502 of a service": [
    error("GET https://api.example.com/v1/orders/81 failed: 502 Bad Gateway"),
    error("GET https://api.example.com/v1/orders/17?page=2 failed: 502 Bad Gateway"),
  ],
  "own check: 504 of a service": [
    error("GET https://api.example.com/v1/orders/81 failed: 504 Gateway Timeout"),
    error("GET https://eu.example.org/orders failed: 504 Gateway Timeout"),
  ],
  "status only beside the message: 401": [
    error("The request was refused", { name: "HttpError", status: 401 }),
    error("The request was refused", { name: "HttpError", status: 401 }),
  ],
  "status only beside the message: 403": [
    error("The request was refused", { name: "HttpError", status: 403 }),
    error("The request was refused", { name: "HttpError", status: 403 }),
  ],
  "model: rate limit": [
    error(
      "429 Rate limit reached for gpt-x in organization org-Ab12Cd34Ef on tokens per min: Limit 30000, Used 29811, Requested 1202. Please try again in 2.026s.",
      { name: "RateLimitError", status: 429 },
    ),
    error(
      "429 Rate limit reached for gpt-x in organization org-Zz98Yy76Xx on tokens per min: Limit 90000, Used 89990, Requested 77. Please try again in 45ms.",
      { name: "RateLimitError", status: 429 },
    ),
  ],
  "model: overloaded, as JSON": [
    error(
      '529 {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"},"request_id":"req_011CSHoEeqs5C35K2UUqR7Fy"}',
      { name: "InternalServerError", status: 529 },
    ),
    error(
      '529 {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"},"request_id":"req_018EeWyXxfu5pfWkrYcMdjWG"}',
      { name: "InternalServerError", status: 529 },
    ),
  ],
  "model: too long, as JSON": [
    error(
      '400 {"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 212431 tokens > 200000 maximum"}}',
      { name: "BadRequestError", status: 400 },
    ),
    error(
      '400 {"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 200001 tokens > 200000 maximum"}}',
      { name: "BadRequestError", status: 400 },
    ),
  ],
  "postgres: duplicate e-mail": [
    error('duplicate key value violates unique constraint "users_email_key"', {
      name: "error",
      code: "23505",
    }),
    error('duplicate key value violates unique constraint "users_email_key"', {
      name: "error",
      code: "23505",
    }),
  ],
  "postgres: duplicate order": [
    error('duplicate key value violates unique constraint "orders_pkey"', { name: "error", code: "23505" }),
    error('duplicate key value violates unique constraint "orders_pkey"', { name: "error", code: "23505" }),
  ],
  "postgres: no such column": [
    error('column "emial" does not exist', { name: "error", code: "42703" }),
    error('column "emial" does not exist', { name: "error", code: "42703" }),
  ],
  "postgres: deadlock": [
    error("deadlock detected", { name: "error", code: "40P01" }),
    error("deadlock detected", { name: "error", code: "40P01" }),
  ],
  "postgres: bad integer": [
    error('invalid input syntax for type integer: "abc"', { name: "error", code: "22P02" }),
    error('invalid input syntax for type integer: "12,5"', { name: "error", code: "22P02" }),
  ],
  "query builder: statement timeout": [
    error('Failed query: select "id" from "users" where "id" = $1\nparams: 17', {
      name: "DrizzleQueryError",
      cause: error("canceling statement due to statement timeout", { name: "error", code: "57014" }),
    }),
    error('Failed query: select "id" from "users" where "id" = $1\nparams: 4', {
      name: "DrizzleQueryError",
      cause: error("canceling statement due to statement timeout", { name: "error", code: "57014" }),
    }),
  ],
  "query builder: connection lost": [
    error('Failed query: select "id" from "users" where "id" = $1\nparams: 9', {
      name: "DrizzleQueryError",
      cause: error("Connection terminated unexpectedly"),
    }),
    error('Failed query: select "id" from "users" where "id" = $1\nparams: 3', {
      name: "DrizzleQueryError",
      cause: error("Connection terminated unexpectedly"),
    }),
  ],
  "sqlite: locked": [
    error("database is locked", { name: "SqliteError", code: "SQLITE_BUSY" }),
    error("database is locked", { name: "SqliteError", code: "SQLITE_BUSY" }),
  ],
  "mongo: duplicate": [
    error(
      'E11000 duplicate key error collection: shop.users index: email_1 dup key: { email: "ada@example.com" }',
      { name: "MongoServerError", code: 11000 },
    ),
    error(
      'E11000 duplicate key error collection: shop.users index: email_1 dup key: { email: "grace@example.org" }',
      { name: "MongoServerError", code: 11000 },
    ),
  ],
  "file: missing": [
    error("ENOENT: no such file or directory, open '/tmp/upload-81/a.csv'", { code: "ENOENT" }),
    error("ENOENT: no such file or directory, open 'data/2026-01-01.csv'", { code: "ENOENT" }),
  ],
  "file: no permission": [
    error("EACCES: permission denied, open '/etc/shadow'", { code: "EACCES" }),
    error("EACCES: permission denied, open '/var/lib/x'", { code: "EACCES" }),
  ],
  "file: disk full": [
    error("ENOSPC: no space left on device, write", { code: "ENOSPC" }),
    error("ENOSPC: no space left on device, write", { code: "ENOSPC" }),
  ],
  "bug: name of undefined": [
    error("Cannot read properties of undefined (reading 'name')", { name: "TypeError" }),
    error("Cannot read properties of undefined (reading 'name')", { name: "TypeError" }),
  ],
  "bug: id of undefined": [
    error("Cannot read properties of undefined (reading 'id')", { name: "TypeError" }),
    error("Cannot read properties of undefined (reading 'id')", { name: "TypeError" }),
  ],
  "bug: not a function": [
    error("order.items.map is not a function", { name: "TypeError" }),
    error("order.items.map is not a function", { name: "TypeError" }),
  ],
  "JSON: HTML instead": [
    error(`Unexpected token '<', "<!DOCTYPE "... is not valid JSON`, { name: "SyntaxError" }),
    error(`Unexpected token 'I', "Internal S"... is not valid JSON`, { name: "SyntaxError" }),
  ],
  "JSON: cut off": [
    error("Unexpected end of JSON input", { name: "SyntaxError" }),
    error("Unexpected end of JSON input", { name: "SyntaxError" }),
  ],
  "validation: e-mail is no text": [
    error(
      '[\n  {\n    "expected": "string",\n    "code": "invalid_type",\n    "path": [\n      "email"\n    ],\n    "message": "Invalid input: expected string, received undefined"\n  }\n]',
      { name: "ZodError" },
    ),
    error(
      '[\n  {\n    "expected": "string",\n    "code": "invalid_type",\n    "path": [\n      "email"\n    ],\n    "message": "Invalid input: expected string, received undefined"\n  }\n]',
      { name: "ZodError" },
    ),
  ],
  "validation: amount too small": [
    error(
      '[\n  {\n    "origin": "number",\n    "code": "too_small",\n    "minimum": 0,\n    "path": [\n      "amount"\n    ],\n    "message": "Too small: expected number to be >=0"\n  }\n]',
      { name: "ZodError" },
    ),
    error(
      '[\n  {\n    "origin": "number",\n    "code": "too_small",\n    "minimum": 5,\n    "path": [\n      "amount"\n    ],\n    "message": "Too small: expected number to be >=5"\n  }\n]',
      { name: "ZodError" },
    ),
  ],
  "payment: card declined": [
    error("Your card was declined. (request req_8fK2mQ9xLp)", {
      name: "StripeCardError",
      code: "card_declined",
    }),
    error("Your card was declined. (request req_Zt71bbQ0aa)", {
      name: "StripeCardError",
      code: "card_declined",
    }),
  ],
  "payment: card expired": [
    error("Your card was declined. (request req_11aaBB22cc)", {
      name: "StripeCardError",
      code: "expired_card",
    }),
    error("Your card was declined. (request req_Qq0987zzTT)", {
      name: "StripeCardError",
      code: "expired_card",
    }),
  ],
  "payment: no such customer": [
    error("No such customer: 'cus_NffrFeUfNV2Hib'", {
      name: "StripeInvalidRequestError",
      code: "resource_missing",
    }),
    error("No such customer: 'cus_9s6XKzkNRiz8i3'", {
      name: "StripeInvalidRequestError",
      code: "resource_missing",
    }),
  ],
  "mail: mailbox unavailable": [
    error("Mailbox unavailable: ada@example.com (session 7f3a9c2d1e)", { code: "EENVELOPE" }),
    error("Mailbox unavailable: grace.hopper@example.org (session 00ff12ab90)", { code: "EENVELOPE" }),
  ],
  "program: out of memory": [
    error("ffmpeg exited with code 137 after 82.4s"),
    error("ffmpeg exited with code 137 after 950ms"),
  ],
  "program: failed": [
    error("ffmpeg exited with code 1 after 3s"),
    error("ffmpeg exited with code 1 after 12.5s"),
  ],
  "own: order not found": [
    error("Order 019bc188-3c70-7000-8000-00000b3a8ceb not found"),
    error("Order 11111111-2222-4333-8444-555555555555 not found"),
  ],
  "own: invoice closed": [
    error("Invoice INV-10023 was closed on 2026-03-01T10:00:00.000Z"),
    error("Invoice INV-77 was closed on 2025-12-24 08:15:00"),
  ],
  "own: invoice open": [error("Invoice INV-5 is still open"), error("Invoice INV-1009 is still open")],
  "own: token expired": [
    error("jwt expired at Wed Nov 18 2026 08:00:00 GMT+0000 (Coordinated Universal Time)", {
      name: "TokenExpiredError",
    }),
    error("jwt expired at Tue Mar 03 2026 23:59:01 GMT+0100 (Central European Standard Time)", {
      name: "TokenExpiredError",
    }),
  ],
  "dibs: task timeout": [
    error("Task 019bc188-3c70-7000-8000-00000b3a8ceb took longer than its queue's timeout of 60000 ms.", {
      name: "DibsError",
      code: "TIMEOUT",
    }),
    error("Task 019bc188-4444-7000-8000-00000b3a8ceb took longer than its queue's timeout of 100 ms.", {
      name: "DibsError",
      code: "TIMEOUT",
    }),
  ],
  "mysql: duplicate e-mail": [
    error("Duplicate entry 'ada@example.com' for key 'users.email'", { code: "ER_DUP_ENTRY" }),
    error("Duplicate entry 'x' for key 'users.email'", { code: "ER_DUP_ENTRY" }),
  ],
  "mysql: duplicate phone": [
    error("Duplicate entry '+44 20 7946 0018' for key 'users.phone'", { code: "ER_DUP_ENTRY" }),
    error("Duplicate entry '555' for key 'users.phone'", { code: "ER_DUP_ENTRY" }),
  ],
  "gRPC: unavailable": [
    error("14 UNAVAILABLE: No connection established. Last error: connect ECONNREFUSED 10.0.0.1:50051", {
      code: 14,
    }),
    error("14 UNAVAILABLE: No connection established. Last error: connect ECONNREFUSED 10.9.0.1:50052", {
      code: 14,
    }),
  ],
  "gRPC: deadline": [
    error("4 DEADLINE_EXCEEDED: Deadline exceeded after 1.001s", { code: 4 }),
    error("4 DEADLINE_EXCEEDED: Deadline exceeded after 30s", { code: 4 }),
  ],
  "AWS: no such key": [
    error("The specified key does not exist.", { name: "NoSuchKey" }),
    error("The specified key does not exist.", { name: "NoSuchKey" }),
  ],
  "AWS: throttled": [
    error("Rate exceeded", { name: "ThrottlingException" }),
    error("Rate exceeded", { name: "ThrottlingException" }),
  ],
};
