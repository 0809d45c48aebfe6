// Writes what is made from the code: openapi.json and the table of operations in docs/reference/roles-and-scopes.md from the routes,
// docs/reference/errors.md from the catalog.
// With --check it writes nothing and fails when a committed file is out of date.
import { readFile, writeFile } from 'node:fs/promises'
import { version } from '../src/config/version.ts'
import { openApiDocument } from '../src/http/openapi/document.ts'
import { leastRole } from '../src/http/route.ts'
import { statuses } from '../src/http/statuses.ts'
import { roles } from '../src/identity/caller.ts'
import { type ErrorCode, errorCatalog } from '../src/kernel/errors.ts'
import { routes } from '../src/resources/routes.ts'

const errorsPage = `# Errors

Every refusal has the form

\`\`\`json
{"error_code": "ERR_…", "status_code": 400, "msg": "what to do", "details": {"operation_id": "op_…"},
 "doc_url": "https://…/docs/reference/errors.html#err_…"}
\`\`\`

All values in \`details\` are strings. The operation id is also in the \`Operation-Id\` header of every response and in
the log of the service. This page is made from \`src/kernel/errors.ts\` and \`src/http/statuses.ts\` by \`npm run openapi\`.

${(Object.keys(errorCatalog) as ErrorCode[])
  .map((code) => {
    const { cause, hint } = errorCatalog[code]
    return `## ${code}\n\nStatus ${statuses[code]}. ${cause}\n\n**What to do:** ${hint}\n`
  })
  .join('\n')}`

/** Who may call each operation, between two marks in the page. */
function withOperations(page: string): string {
  const [before, , after] = page.split(/(?<=<!-- operations -->\n)(.*)(?=<!-- end of operations -->)/s)
  if (after === undefined)
    throw new Error('docs/reference/roles-and-scopes.md has lost the marks around its table of operations')
  const rows = routes.map((route) => {
    const columns = roles.toReversed().map((role) => mark(route, role))
    return `| \`${route.operation}\` | \`${route.method} ${route.path.replaceAll(/:(\w+)/g, '{$1}')}\` | ${columns.join(' | ')} |`
  })
  const head = `| operation | request | ${roles.toReversed().join(' | ')} |\n|---|---|${'---|'.repeat(roles.length)}`
  return `${before}${head}\n${rows.join('\n')}\n${after}`
}

function mark(route: (typeof routes)[number], role: (typeof roles)[number]): string {
  if (roles.indexOf(role) > roles.indexOf(leastRole(route))) return 'no'
  return role !== 'admin' && route.adminsOnly ? 'some' : 'yes'
}

const lineWidth = 100

function onOneLine(value: unknown): string {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  if (Array.isArray(value)) return `[${value.map(onOneLine).join(', ')}]`
  const fields = Object.entries(value).map(([name, each]) => `${JSON.stringify(name)}: ${onOneLine(each)}`)
  return fields.length === 0 ? '{}' : `{ ${fields.join(', ')} }`
}

/** Whatever fits on a line has one, as a person would write it: most of the document is short references. */
function onLines(value: unknown, indent = '', keyLength = 0): string {
  const line = onOneLine(value)
  if (typeof value !== 'object' || value === null || indent.length + keyLength + line.length <= lineWidth) return line
  const deeper = `${indent}  `
  const lines = Object.entries(value).map(([name, each]) => {
    const key = Array.isArray(value) ? '' : `${JSON.stringify(name)}: `
    return `${deeper}${key}${onLines(each, deeper, key.length)}`
  })
  const [open, close] = Array.isArray(value) ? '[]' : '{}'
  return `${open}\n${lines.join(',\n')}\n${indent}${close}`
}
/** Through JSON once, which leaves out what is undefined. */
const toJson = (value: unknown): string => `${onLines(JSON.parse(JSON.stringify(value)))}\n`

const apiPage = await readFile(new URL('../docs/reference/roles-and-scopes.md', import.meta.url), 'utf8')

const made = {
  'docs/reference/roles-and-scopes.md': withOperations(apiPage),
  'openapi.json': toJson(openApiDocument(routes, version)),
  'docs/reference/errors.md': errorsPage,
}

for (const [name, text] of Object.entries(made)) {
  const file = new URL(`../${name}`, import.meta.url)
  if (!process.argv.includes('--check')) await writeFile(file, text)
  else if ((await readFile(file, 'utf8').catch(() => '')) !== text) {
    console.error(`${name} is out of date: run 'npm run openapi' and commit it`)
    process.exitCode = 1
  }
}
