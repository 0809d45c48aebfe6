type Operation = { operationId: string; summary: string; tags: string[]; security?: unknown[] }
export type ApiDocument = {
  info: { version: string; description: string }
  paths: Record<string, Record<string, Operation>>
}

/** API reference for language models, generated from the OpenAPI document. */
export function llmsText(document: ApiDocument, publicUrl: string): string {
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ method: method.toUpperCase(), path, ...operation })),
  )
  const groups = Object.groupBy(operations, ({ tags }) => tags[0] ?? 'other')
  return `# Gatehouse

> A control plane for a network edge, with an HTTP API: ${document.info.description}

Version ${document.info.version}. Base URL: ${publicUrl}. OpenAPI 3.1 document: ${publicUrl}/openapi.json. Reference for people: ${publicUrl}/docs/reference/. Documentation: ${publicUrl}/docs/.

## Every request

- \`Authorization: Bearer <token>\`: the token of an API key. Ask a person for one; it is shown once, when a key is created or rotated.
- \`Service-Version: 2\`, exactly once.
- \`Content-Type: application/json\` with POST, PATCH and PUT. Unknown fields are refused, and types are never converted.
- When creating with POST, \`Idempotency-Key: <unique text>\` makes retries safe. On changes, \`If-Match: <ETag>\` prevents overwriting someone else's change.

## Every response

- Success: 200, 201 or 204. Errors: \`{"error_code", "status_code", "msg", "details": {"operation_id", "field"?}}\`; msg says what to do. Programs should use error_code.
- Lists: newest first, \`limit\` 1 to 100, follow \`next_page_uri\` until it is null.
- \`Service-Generation\` is the number of a change that concerns edge nodes; add \`?wait=applied\` to wait until they have applied it.

## Before you change IP restrictions

Create the restriction with \`"enforced": false\`, read \`GET /ip_restrictions/{id}/warnings\` after some traffic, and enforce it once no address that needs access is listed. \`POST /ip_checks\` shows what would happen to one address.

## Operations
${Object.entries(groups)
  .map(
    ([group, members = []]) =>
      `\n### ${group}\n\n${members.map(({ method, path, operationId, summary }) => `- ${method} ${path} (${operationId}): ${summary}.`).join('\n')}\n`,
  )
  .join('')}`
}
