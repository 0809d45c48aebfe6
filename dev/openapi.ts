// Writes generated files: openapi.json from the routes, docs/reference/errors.md from the catalog, and the parts of
// other pages that dev/generated_docs.ts names. With --check it writes nothing, and fails if a committed file is out of
// date.
import { readFile, writeFile } from 'node:fs/promises'
import { version } from '../src/config/version.ts'
import { openApiDocument } from '../src/http/openapi/document.ts'
import { routes } from '../src/resources/routes.ts'
import { errorsPage } from './errors_page.ts'
import { generatedDocs } from './generated_docs.ts'

const lineWidth = 100

function onOneLine(value: unknown): string {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  if (Array.isArray(value)) return `[${value.map(onOneLine).join(', ')}]`
  const fields = Object.entries(value).map(([name, each]) => `${JSON.stringify(name)}: ${onOneLine(each)}`)
  return fields.length === 0 ? '{}' : `{ ${fields.join(', ')} }`
}

/** Puts a value on one line if it fits, as a person would: most of the document is short references. */
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
/** The round trip through JSON omits undefined values. */
const toJson = (value: unknown): string => `${onLines(JSON.parse(JSON.stringify(value)))}\n`

const made = {
  'openapi.json': toJson(openApiDocument(routes, version)),
  'docs/reference/errors.md': errorsPage,
  ...(await generatedDocs()),
}

for (const [name, text] of Object.entries(made)) {
  const file = new URL(`../${name}`, import.meta.url)
  if (!process.argv.includes('--check')) await writeFile(file, text)
  else if ((await readFile(file, 'utf8').catch(() => '')) !== text) {
    console.error(`${name} is out of date: run 'npm run openapi' and commit it`)
    process.exitCode = 1
  }
}
