// Lints openapi.json with the rules that Redocly recommends. The few that are off say why.
import { createConfig, lint } from '@redocly/openapi-core'

const rules = {
  // Operation ids are `resource.verb`, as in the log and the audit.
  'operation-operationId-url-safe': 'off',
  // The document is served by the installation that it describes.
  'no-server-example.com': 'off',
  'no-empty-servers': 'off',
  // It does not look into extensions. test/openapi.test.ts does, and refuses a component that nothing refers to.
  'no-unused-components': 'off',
  // Every operation has the error responses that it can really give.
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
