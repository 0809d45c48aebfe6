// The README, for a reader who has just cloned this: every command, as printed, in the order of the page.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { typePage } from './harness/printed_commands.ts'

test('every command of the README works as printed, and does what the page says', async (t) => {
  const typedIn = await typePage(t, 'README.md', 2, '-u')
  if (!typedIn) return
  const [edge = '', explained = ''] = typedIn.printed

  const [headers = '', refusal = ''] = edge.split(/(?<=^\}\n)/m)
  assert.equal(JSON.parse(headers)['x-forwarded-for'], '127.0.0.2')
  assert.match(refusal, /ERR_IP_REFUSED/)

  assert.match(explained, /^outcome +refused$/m)
  assert.match(explained, /^source_ip +127\.0\.0\.9$/m)
  assert.match(explained, /^action +deny$/m)
  assert.match(explained, /^deleted ip_policy_rules\/ipr_\w+$/m)
  assert.match(typedIn.stderr, /applied on 1\/1 live edge nodes/)
  const reached = explained.slice(explained.indexOf('{'))
  assert.equal(JSON.parse(reached)['x-forwarded-for'], '127.0.0.9')
})
