// Writes the files that are made from the code: openapi.json from the routes, docs/errors.md from the catalog.
// With --check it writes nothing and fails when a committed file is out of date.
import { readFile, writeFile } from 'node:fs/promises'
import { openApiDocument } from '../src/http/openapi/document.ts'
import { statuses } from '../src/http/statuses.ts'
import { type ErrorCode, errorCatalogue } from '../src/kernel/errors.ts'
import { routes } from '../src/resources/routes.ts'
import { version } from '../src/version.ts'

const errorsPage = `# Errors

Every refusal has the form

\`\`\`json
{"error_code": "ERR_…", "status_code": 400, "msg": "what to do", "details": {"operation_id": "op_…"}}
\`\`\`

All values in \`details\` are strings. The operation id is also in the \`Operation-Id\` header of every response and in
the log of the service. This page is made from \`src/kernel/errors.ts\` and \`src/http/statuses.ts\` by \`npm run openapi\`.

${(Object.keys(errorCatalogue) as ErrorCode[])
  .map((code) => {
    const { cause, hint } = errorCatalogue[code]
    return `## ${code}\n\nStatus ${statuses[code]}. ${cause}\n\n**What to do:** ${hint}\n`
  })
  .join('\n')}`

const made = {
  'openapi.json': `${JSON.stringify(openApiDocument(routes, version), null, 2)}\n`,
  'docs/errors.md': errorsPage,
}

for (const [name, text] of Object.entries(made)) {
  const file = new URL(`../${name}`, import.meta.url)
  if (!process.argv.includes('--check')) await writeFile(file, text)
  else if ((await readFile(file, 'utf8').catch(() => '')) !== text) {
    console.error(`${name} is out of date: run 'npm run openapi' and commit it`)
    process.exitCode = 1
  }
}
