// docs/start/tutorial.md, typed in as printed: one terminal, one block after the other.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { typePage } from './harness/printed_commands.ts'

test('every command of the tutorial works as printed, and shows what the page says', async (t) => {
  // -e: a command that fails ends it, as it would end a reader's patience.
  const typed = await typePage(t, 'docs/start/tutorial.md', 9, '-euo pipefail')
  if (!typed) return
  const [
    start = '',
    key = '',
    rotated = '',
    warned = '',
    evidence = '',
    allowed = '',
    enforced = '',
    edge = '',
    back = '',
  ] = typed.printed
  assert.match(start, /usr_\w+/)
  assert.equal(key, '200\n')
  const { previous_token, rotated_at } = JSON.parse(rotated)
  assert.ok(rotated_at)
  assert.equal(previous_token.last_used_ip, '127.0.0.1')
  assert.match(warned, /^HTTP\/1.1 200/)
  assert.match(warned, /^service-warning: ip_restriction=ipx_/im)
  assert.match(evidence, /127\.0\.0\.5/)
  assert.equal(allowed, '0\n')
  assert.match(enforced, /^127\.0\.0\.1 200\n127\.0\.0\.5 200\n127\.0\.0\.6 403\n/)
  assert.match(enforced, /^op_\w+/m)
  assert.match(edge, /"x-team": "platform"/)
  const teams = [...back.matchAll(/"x-team": "(\w+)"/g)].map(([, team]) => team)
  assert.deepEqual(teams, ['oops', 'platform'])
  assert.match(back, /https_edge_routes/)
})
