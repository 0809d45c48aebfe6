// Lints openapi.json with Redocly's recommended rules. A comment explains each rule that is off.
import { createConfig, lint } from '@redocly/openapi-core'

const rules = {
  // Operation ids are `resource.verb`, like in the log and the audit.
  'operation-operationId-url-safe': 'off',
  // The described installation serves the document itself.
  'no-server-example.com': 'off',
  'no-empty-servers': 'off',
  // The rule ignores extensions. test/openapi.test.ts reads them, and refuses an unreferenced component.
  'no-unused-components': 'off',
  // Every operation lists the error responses that it can really give.
  'operation-4xx-response': 'error',
  'tag-description': 'error',
  'operation-description': 'error',
  'operation-tag-defined': 'error',
} as const

const config = await createConfig({ extends: ['recommended-strict'], rules })
const problems = await lint({ ref: new URL('../openapi.json', import.meta.url).pathname, config })
for (const { ruleId, message, location } of problems)
  console.error(`${ruleId}: ${message} (${location.map(({ pointer }) => pointer).join(', ')})`)
if (problems.length > 0) process.exit(1)
