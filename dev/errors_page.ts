// docs/reference/errors.md: every API code from the catalog, and every code of an edge from its answers.
import { answers } from '../src/agent/haproxy/config/answers.ts'
import { statuses } from '../src/http/statuses.ts'
import { type ErrorCode, errorCatalog } from '../src/kernel/errors.ts'

type Entry = { code: string; status: number; text: string }

const ofApi: Entry[] = (Object.keys(errorCatalog) as ErrorCode[]).map((code) => {
  const { cause, hint } = errorCatalog[code]
  return { code, status: statuses[code], text: `${cause}\n\n**What to do:** ${hint}` }
})

/** An edge gives the reason in one sentence, without a hint: its readers are a tenant's clients. */
const ofEdges: Entry[] = Object.values(answers).flatMap((answer) => {
  const [, body = '{}'] = /string '(\{.*\})'/.exec(answer) ?? []
  const { error_code: code, status_code: status, msg } = JSON.parse(body)
  return Object.hasOwn(errorCatalog, code) ? [] : [{ code, status, text: `From an edge. ${msg}` }]
})
const edgeCodes = [...Map.groupBy(ofEdges, ({ code }) => code)].map(([code, entries]) => ({
  code,
  status: entries[0]?.status ?? 0,
  text: `${entries.map(({ text }) => text).join('\n\n')}\n\n**What to do:** see [what to check](../operate/troubleshooting-edge-nodes.md#a-client-gets-no-answer-or-the-wrong-one).`,
}))

const byStatus = [...Map.groupBy([...ofApi, ...edgeCodes], ({ status }) => status)].sort(([a], [b]) => a - b)
const link = ({ code }: Entry) => `[\`${code}\`](#${code.toLowerCase()})`

export const errorsPage = `# Errors

Every error of the API has this form. \`error_code\` keeps its meaning once released; messages may change.

\`\`\`json
{"error_code": "ERR_…", "status_code": 400, "msg": "what to do", "details": {"operation_id": "op_…"},
 "doc_url": "https://…/docs/reference/errors.html#err_…"}
\`\`\`

All values in \`details\` are strings. The operation id is also in the \`Operation-Id\` header of every response and in the log
of the service: give it to your operator. Errors of an edge have the same form without \`doc_url\`, and an \`X-Request-Id\`
with which you can [find out why](../guides/why-was-it-refused.md).

| status | codes |
|---|---|
${byStatus.map(([status, entries]) => `| ${status} | ${entries.map(link).join(', ')} |`).join('\n')}

${[...ofApi, ...edgeCodes].map(({ code, status, text }) => `## ${code}\n\nStatus ${status}. ${text}\n`).join('\n')}`
