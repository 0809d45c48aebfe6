// IPv6 addresses that have an IPv4 address in them are clients of their own. Only root can give itself such addresses.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const addresses = ['10.0.0.1', '2002:a00:1::1', '2002:a00:1::2', '::10.0.0.5', '2001:db8::1']
const skip = process.getuid?.() === 0 ? false : 'needs root for a network of its own'

test('6to4 and IPv4-compatible sources count neither as trusted IPv4 proxies nor as IPv4 load balancers, and have limits of their own', {
  skip,
}, async () => {
  const inside = fileURLToPath(new URL('embedded_addresses/inside.ts', import.meta.url))
  const add = addresses.map(
    (address) => `ip addr add ${address}${address.includes(':') ? '/128 dev lo nodad' : '/32 dev lo'}`,
  )
  const script = ['ip link set lo up', ...add, `exec '${process.execPath}' '${inside}'`]
  const { stdout } = await promisify(execFile)('unshare', ['-n', 'bash', '-ec', script.join('\n')])
  assert.deepEqual(JSON.parse(stdout), {
    forwardedFor: { '10.0.0.1': 200, '2002:a00:1::1': 403, '::10.0.0.5': 403, '2001:db8::1': 403 },
    proxyProtocol: { '10.0.0.1': 'hello', '2002:a00:1::1': '', '::10.0.0.5': '', '2001:db8::1': '' },
    // Two connections held by 2002:a00:1::1 are the whole share of its /64, and none of 10.0.0.1's.
    limits: { '10.0.0.1': 'hello', '2002:a00:1::2': '', '::10.0.0.5': 'hello', '2001:db8::1': 'hello' },
    // Without a limit are 10.0.0.0/8 alone.
    unlimited: { '10.0.0.1': 'hello', '2002:a00:1::1': '' },
  })
})
