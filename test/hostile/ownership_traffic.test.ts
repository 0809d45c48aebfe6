// Rows 1 and 5 of the security review, with real traffic: what one account's clients reach is never another's to change.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { newHttpsSite, newTcpSite, reachHttps, reachTcp, startHostileTenants } from '../harness/tenants.ts'

const { edge, victim, attacker } = await startHostileTenants({ after })

test('two accounts share one edge node, each with its own traffic', async () => {
  const [first, second] = [edge.tcpPorts.first, edge.tcpPorts.first + 1]
  assert.equal((await newTcpSite(victim, [`tcp.example:${first}`])).status, 201)
  assert.equal((await newTcpSite(attacker, [`tcp.other.example:${second}`])).status, 201)
  assert.equal((await newHttpsSite(victim, ['one.example:443'])).status, 201)
  assert.equal((await newHttpsSite(attacker, ['two.example:443'])).status, 201)
  assert.deepEqual([await reachTcp(first), await reachTcp(second)], ['victim', 'attacker'])
  assert.deepEqual(await reachHttps(edge, 'one.example'), { status: 200, body: 'victim' })
  assert.deepEqual(await reachHttps(edge, 'two.example'), { status: 200, body: 'attacker' })
})
