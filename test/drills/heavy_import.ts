// `npm run drill -- heavy-import <imports> <rules>`: 12 imports of 100,000 rules at once, by one account and by 12, and the
// effect on another account. The other account's 99th percentile must stay below 100 ms.
import { percentile, startBystander } from '../harness/bystander.ts'
import { type Account, startControlPlane } from '../harness/control_plane.ts'
import { drill } from '../harness/drill.ts'
import { policyWith, putRules } from '../harness/ip.ts'
import { peakMemoryMiB } from '../harness/memory.ts'
import { pause } from '../harness/poll.ts'

const imports = Number(process.argv[2] ?? 12)
const rules = Number(process.argv[3] ?? 100_000)
const boundMs = 100

await drill(async (scope) => {
  const env = { GATEHOUSE_IP_POLICY_RULES_PER_ACCOUNT: '100000000' }
  const plane = await startControlPlane(scope, { env })
  const [server] = plane.processes
  const bystander = await plane.newAccount()
  const watch = () => startBystander({ origin: server?.origin ?? '', token: bystander.token, path: '/caller' })
  const lines = (net: number) =>
    Array.from({ length: rules }, (_, i) => `allow ${net}.${i >> 16}.${(i >> 8) & 255}.${i & 255} # customer ${i}`)

  const report = async (what: string, work: () => Promise<string>): Promise<boolean> => {
    const end = watch()
    const began = performance.now()
    const outcome = await work()
    const seconds = (performance.now() - began) / 1_000
    const experience = await end()
    const metrics = await (await fetch(`${server?.origin}/metrics`)).text()
    const [, lag] = /^nodejs_eventloop_lag_max_seconds (\S+)$/m.exec(metrics) ?? []
    const [p50, p99, max] = [0.5, 0.99, 1].map((share) => percentile(experience, share).toFixed(1))
    console.log(
      `${what}: ${outcome} in ${seconds.toFixed(1)} s; another account's GET /caller: p50 ${p50} ms, p99 ${p99} ms, max ${max} ms of ${experience.latencies.length}, ${experience.failures.length} failed; longest the process was busy ${(Number(lag) * 1_000).toFixed(0)} ms; peak memory ${peakMemoryMiB(server?.child.pid).toFixed(0)} MiB`,
    )
    return experience.failures.length === 0 && percentile(experience, 0.99) < boundMs
  }
  const importAll = async (targets: readonly { account: Account; policy: string }[]): Promise<string> => {
    const answers = await Promise.all(
      targets.map(({ account, policy }, index) => putRules(account, policy, lines(10 + index))),
    )
    const counts = Map.groupBy(answers, ({ status }) => status)
    return [...counts].map(([status, those]) => `${those.length} × ${status}`).join(', ')
  }
  const targetsOf = async (accounts: readonly Account[]) =>
    Promise.all(accounts.map(async (account) => ({ account, policy: await policyWith(account) })))

  const quiet = await report('quiet', async () => {
    await pause(3_000)
    return 'nothing else'
  })
  const hostile = await plane.newAccount()
  const ofOne = await targetsOf(Array.from({ length: imports }, () => hostile))
  const one = await report(`${imports} imports of ${rules} rules by one account`, () => importAll(ofOne))
  const ofMany = await targetsOf(await Promise.all(Array.from({ length: imports }, () => plane.newAccount())))
  const many = await report(`${imports} imports of ${rules} rules by as many accounts`, () => importAll(ofMany))
  return quiet && one && many
})
