// `npm run drill -- move-account <requests per second> <moves>`: a node joins a new cell with a token, and an account moves to
// it and back under 200 requests a second, as docs/operate/cells.md says. Prints how long it took from the invitation to the
// first request that the new node served, and how many requests failed.
import assert from 'node:assert/strict'
import { createCell } from '../../src/commands/cells/cells.ts'
import { startHttpUpstream } from '../agent/http_harness.ts'
import { startJoining } from '../fleet/joining.ts'
import { gatehouse } from '../harness/command.ts'
import { drill } from '../harness/drill.ts'
import { make, newHttpsEdge } from '../harness/fixtures.ts'
import { describeFailures, failed, type Observed, startLoad } from '../harness/open_loop.ts'
import { pause, poll } from '../harness/poll.ts'
import { quantiles } from '../harness/quantiles.ts'
import { statusOf } from '../upgrade/installation.ts'

const [perSecond = 200, moves = 4] = process.argv.slice(2).map(Number)
const host = 'moving.example'
/** As long as resolvers keep the old DNS record: requests arrive at both cells. */
const dnsMs = 5_000
const joinGoalMs = 60_000

await drill(async (scope) => {
  const fleet = await startJoining(scope)
  await fleet.untilReady()
  const web = await startHttpUpstream(scope, 'web')
  const account = await fleet.newAccount()
  const backend = { backend_id: (await make(account, '/backends/static', { address: `127.0.0.1:${web.port}` })).id }
  const edge = await newHttpsEdge(account, { hostports: [`${host}:443`] })
  for (let index = 0; index < 50; index++)
    await make(account, `${edge.uri}/routes`, { match_type: 'exact_path', match: `/other/${index}`, backend })
  await make(account, `${edge.uri}/routes`, { match_type: 'path_prefix', match: '/', backend })
  const cells = async (...args: string[]) => {
    const ended = await gatehouse(['cells', 'place', account.accountId, ...args, '--yes'], fleet.env)
    assert.equal(ended.code, 0, ended.stderr)
  }
  const untilServed = ({ httpsPort }: { httpsPort: number }) =>
    poll(
      () => statusOf(httpsPort, host, '127.0.0.1', '/'),
      (status) => status === 200,
    )
  const join = async (name: string, cell: string) => {
    const token = /gatehouse_join_\S+/.exec(await fleet.nodes('invite', '--name', name, '--cell', cell))?.[0] ?? ''
    const machine = await fleet.joinMachine(token)
    assert.equal(machine.code, 0, machine.stderr)
    return fleet.startJoined(machine)
  }
  const home = await join('edge-home', 'default')
  await untilServed(home)
  await createCell(fleet.db, { name: 'eu', isDefault: false, confirmed: true })
  await cells('default', 'eu')
  const invited = performance.now()
  const away = await join('edge-eu', 'eu')
  await untilServed(away)
  const joinedMs = performance.now() - invited
  console.log(
    `from the invitation to the first request served by the new node: ${(joinedMs / 1_000).toFixed(1)} s, with the start of three processes`,
  )
  await cells('default')

  const observed: Observed[] = []
  const places = [
    { cell: 'default', node: home },
    { cell: 'eu', node: away },
  ] as const
  let load = startLoad(scope, { name: 'before', httpsPort: home.httpsPort, hosts: [host], perSecond })
  await pause(2_000)
  for (let move = 0; move < moves; move++) {
    const [from, to] = move % 2 === 0 ? places : ([places[1], places[0]] as const)
    const began = performance.now()
    await cells(from.cell, to.cell)
    await untilServed(to.node)
    const { headers } = await account('PATCH', `${edge.uri}?wait=applied`, { description: `move ${move}` })
    assert.equal(headers.get('service-applied'), '2/2')
    const ready = performance.now()
    // Resolvers learn of the new address one after another.
    const next = startLoad(scope, { name: `move-${move}`, httpsPort: to.node.httpsPort, hosts: [host], perSecond })
    await pause(dnsMs)
    observed.push(await load.stop())
    await cells(to.cell)
    await poll(
      () => statusOf(from.node.httpsPort, host, '127.0.0.1', '/'),
      (status) => status !== 200,
    )
    load = next
    console.log(`moved to ${to.cell}: all records in force there after ${Math.round(ready - began)} ms`)
    await pause(2_000)
  }
  observed.push(await load.stop())
  const sent = observed.reduce((sum, each) => sum + each.sent, 0)
  const failures = observed.reduce((sum, each) => sum + failed(each), 0)
  for (const each of observed) if (failed(each) > 0) console.log(describeFailures(each))
  console.log(`${moves} moves under ${perSecond} requests a second: ${failures} of ${sent} requests failed`)
  console.log(`from when each was due: ${quantiles(observed.flatMap(({ latencies }) => latencies))}`)
  return failures === 0 && sent > 0 && joinedMs < joinGoalMs
})
