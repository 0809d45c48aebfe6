import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isOlder } from './authorities.ts'

test('versions of HAProxy that may resume a session with other authorities are recognized', () => {
  for (const version of ['3.4.6', '3.4.6-1+deb13u1', '3.4.0', '3.4-dev3', '3.3.12', '2.6.12', '', 'unknown'])
    assert.equal(isOlder(version, [3, 4, 7]), true, version)
  for (const version of ['3.4.7', '3.4.7-1', '3.4.10', '3.5-dev5', '3.5.0', '4.0'])
    assert.equal(isOlder(version, [3, 4, 7]), false, version)
})
