type Operation = { operationId: string; summary: string; tags: string[]; security?: unknown[] }
export type ApiDocument = {
  info: { version: string; description: string }
  paths: Record<string, Record<string, Operation>>
}

/** What a language model has to know to use the API, in plain text: made from the document, so that it is never behind it. */
export function llmsText(document: ApiDocument, publicUrl: string): string {
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ method: method.toUpperCase(), path, ...operation })),
  )
  const groups = Object.groupBy(operations, ({ tags }) => tags[0] ?? 'other')
  return `# Gatehouse

> A control plane for the edge of a network, with an HTTP API: ${document.info.description}

Version ${document.info.version}. Base URL: ${publicUrl}. The whole document, OpenAPI 3.1: ${publicUrl}/openapi.json. For people: ${publicUrl}/docs/.

## Every request

- \`Authorization: Bearer <token>\`: the token of an API key. Ask a person for one; it is shown once, when a key is created or rotated.
- \`Service-Version: 2\`, exactly once.
- \`Content-Type: application/json\` with POST, PATCH and PUT. Unknown fields are refused, types are not converted.
- On POST that creates, \`Idempotency-Key: <unique text>\` makes a repetition harmless. On changes, \`If-Match: <ETag>\` refuses to overwrite what somebody else changed.

## Every answer

- Success: 200, 201 or 204. Errors: \`{"error_code", "status_code", "msg", "details": {"operation_id", "field"?}}\`; msg says what to do. Decide by error_code.
- Lists: newest first, \`limit\` 1 to 100, follow \`next_page_uri\` until it is null.
- \`Service-Generation\` numbers a change that concerns edge nodes; add \`?wait=applied\` to be answered when it is in force there.

## Before you change IP restrictions

Create the restriction with \`"enforced": false\`, read \`GET /ip_restrictions/{id}/warnings\` after some traffic, and enforce it when nobody is listed who should get in. \`POST /ip_checks\` tells what would happen to one address.

## Operations
${Object.entries(groups)
  .map(
    ([group, members = []]) =>
      `\n### ${group}\n\n${members.map(({ method, path, operationId, summary }) => `- ${method} ${path} (${operationId}): ${summary}.`).join('\n')}\n`,
  )
  .join('')}`
}
