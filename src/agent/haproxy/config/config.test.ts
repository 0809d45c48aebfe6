import assert from 'node:assert/strict'
import { test } from 'node:test'
import { answers } from './answers.ts'
import { renderConfig } from './config.ts'

const config = renderConfig({
  folder: '/edge',
  tcpBind: { addresses: ['127.0.0.1'], first: 20_000, last: 20_009 },
  httpsBind: ['127.0.0.1:443'],
  certificateFolder: '/edge/operator',
  runtimeSocket: '/edge/runtime.sock',
  masterSocket: '/edge/master.sock',
  threads: 2,
  caFile: '/edge/ca.pem',
  maxconn: 1_000,
})

test('what refuses a request asks no map: restrictions may have changed since Lua was asked, or not', () => {
  const asksMap = new Set([...config.matchAll(/^ *acl (\S+) .*,map_/gm)].map(([, name]) => name))
  assert.ok(asksMap.has('unrestricted'))
  const lines = config.split('\n').filter((line) => line.includes(`return ${answers.refused} if `))
  assert.ok(lines.length >= 3)
  for (const line of lines) {
    const conditions = (line.split(' if ').at(-1) ?? '').split(' ')
    assert.deepEqual(
      conditions.filter((name) => asksMap.has(name.replace('!', ''))),
      [],
      line,
    )
  }
})
