import assert from 'node:assert/strict'
import { test } from 'node:test'
import { changeUrl, nameOf, readDatabaseUrl } from './database_url.ts'

const servers = (text: string) => readDatabaseUrl(text).servers.map(nameOf)

test('a URL may name several servers, each with a port or without', () => {
  assert.deepEqual(servers('postgres://u:p@a,b:5433,10.0.0.1/d'), ['a:5432', 'b:5433', '10.0.0.1:5432'])
  assert.deepEqual(servers('postgresql://[2001:db8::1]:5433,[::1]/d'), ['[2001:db8::1]:5433', '[::1]:5432'])
  assert.deepEqual(servers('postgres://u@a:6000/d?sslmode=require'), ['a:6000'])
  assert.deepEqual(servers('postgres:///d?host=/run/postgresql'), [])
})

test('the driver gets a URL of one server, without what it does not know', () => {
  const read = readDatabaseUrl('postgres://u:p%40:@a:5433,b/d?target_session_attrs=read-write&sslmode=require')
  assert.equal(read.url, 'postgres://u:p%40%3A@a:5433/d?sslmode=require')
  assert.deepEqual(read.urls, [read.url, 'postgres://u:p%40%3A@b:5432/d?sslmode=require'])
  assert.deepEqual([read.user, read.password, read.mustWrite], ['u', 'p@:', true])
  assert.equal(readDatabaseUrl('postgres://u:p@a/d').mustWrite, false)
  assert.equal(readDatabaseUrl('postgres://u:p@a/d?target_session_attrs=primary').mustWrite, true)
  assert.equal(readDatabaseUrl('postgres://u:p@a,b/d').mustWrite, true)
})

test('a URL that leads to a standby, or cannot be read, is refused', () => {
  for (const wanted of ['standby', 'read-only', 'prefer-standby'])
    assert.throws(
      () => readDatabaseUrl(`postgres://a,b/d?target_session_attrs=${wanted}`),
      /does not lead to the primary, which Gatehouse needs: use read-write/,
    )
  for (const text of ['postgres://a:x,b/d', 'postgres://a:b:c,d/e', 'nonsense'])
    assert.throws(() => readDatabaseUrl(text))
})

test('another part of the URL can be changed without losing a server', () => {
  const url = 'postgres://u:p@a,b:5433/d?target_session_attrs=read-write'
  const other = changeUrl(url, (its) => Object.assign(its, { pathname: 'e', password: '' }))
  assert.equal(other, 'postgres://u@a,b:5433/e?target_session_attrs=read-write')
})
