// The README, as somebody reads it who has just cloned this: every command, as printed, in the order of the page.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { typePage } from './harness/printed_commands.ts'

test('every command of the README works as printed, and does what the page says', async (t) => {
  const typedIn = await typePage(t, 'README.md', 4, '-u')
  if (!typedIn) return
  const [keys = '', typed = '', edge = '', changed = ''] = typedIn.printed

  const [created, got, listed, updated, deleted] = keys.trim().split('\n')
  assert.match(created ?? '', /"token":"gatehouse_/)
  assert.match(got ?? '', /"description":"nightly backup".*"token":null/)
  assert.match(listed ?? '', /^\{"keys":\[.*"next_page_uri":null\}$/)
  assert.match(updated ?? '', /"description":"weekly backup","metadata":"team=storage"/)
  assert.equal(deleted, '204')

  assert.match(typed, /^token +gatehouse_\w+$/m)
  assert.match(typed, /^ID +DESCRIPTION/m)
  assert.match(typed, /^ak_\w+ +nightly backup/m)
  assert.match(typed, /^ipp_\w+$/m)
  assert.match(typed, /^allowed +true$/m)
  assert.match(typed, /--description DESCRIPTION/)

  const [greeting, ...answers] = edge.split('\n')
  assert.equal(greeting, 'hello from the upstream')
  const text = answers.join('\n')
  // Nothing came from the second call: what follows is the upstream of the third, then the refusal of the fourth.
  assert.match(text, /^\{\n/)
  const [headers = '', refusal = ''] = text.split(/(?<=^\}\n)/m)
  const reached = JSON.parse(headers)
  assert.deepEqual(
    [reached.cookie, reached['x-from-the-edge'], reached['x-forwarded-for']],
    [undefined, 'yes', '127.0.0.2'],
  )
  assert.match(refusal, /ERR_IP_REFUSED/)

  const [said = '', ...after] = changed.split('\n')
  assert.match(said, /^deleted ip_policy_rules\/ipr_\w+$/)
  assert.match(typedIn.stderr, /applied on 1\/1 live edge nodes/)
  assert.equal(JSON.parse(after.join('\n'))['x-forwarded-for'], '127.0.0.9')
})
