// An installation of an older version is upgraded under load, in the order of docs/operate/upgrade.md.
import { version } from '../../src/config/version.ts'
import { type Scope, stop } from '../harness/control_plane.ts'
import { startLoad } from '../harness/open_loop.ts'
import { pause, poll } from '../harness/poll.ts'
import { startApiLoad } from './api_load.ts'
import { createSites, originOf, startOlder, statusOf, stranger } from './installation.ts'
import type { OlderVersion } from './older_version.ts'
import { leave, versionIn } from './programs.ts'

export type Sizes = { sites: number; rules: number; perSecond: number }

export async function upgrade(scope: Scope, from: OlderVersion, { sites: count, rules, perSecond }: Sizes) {
  const say = sayWithTime()
  const newer = versionIn('newer')
  const { owner, plane, token, oldPlane, node, oldAgent, permissions } = await startOlder(scope, from)
  let origin = originOf(oldPlane)
  const sites = await createSites(scope, node, rules, token, () => origin)
  const hosts = Array.from({ length: count }, (_, index) => `site-${index}.example`)
  const policies: { id: string }[] = []
  for (const host of hosts) policies.push(await sites.add(host))
  for (const host of hosts) await sites.check(host)
  say(`${count} sites with ${rules} rules each on ${from.version}, ${perSecond} requests/s through its edge node`)

  const edgeLoad = startLoad(scope, { httpsPort: node.httpsPort, hosts: [...hosts], perSecond })
  const apiLoad = startApiLoad(origin, token, { read: '/edges/https', write: `/ip_policies/${policies[0]?.id}` }, 20)
  const intruder = startIntruder(node.httpsPort, hosts[0] ?? '')

  const migrating = performance.now()
  const publishing = await isPublishing(originOf(oldPlane))
  const migrated = await newer.run(['migrate'], owner)
  const applied = migrated.match(/^applied /gm)?.length ?? 0
  const granted = /^granted \w+/m.exec(migrated)?.[0] ?? 'granted nothing'
  const took = Math.round(performance.now() - migrating)
  say(`${publishing}; migrated the database meanwhile: ${applied} migrations in ${took} ms; ${granted}`)

  await permissions.ofBoth()
  const newPlane = await newer.start(scope, 'serve', plane)
  await poll(async () => (await fetch(`${originOf(newPlane)}/readyz`)).status === 200)
  origin = originOf(newPlane)
  await apiLoad.sendTo(origin)
  await stop(oldPlane.child)
  say(`replaced the control plane, which serves as ${plane.GATEHOUSE_DATABASE_APP_ROLE}; the older agent is connected`)
  await checkChange('while the older agent runs', from.version)

  await leave(oldAgent)
  const newAgent = await newer.start(scope, 'edge', { ...node.env, GATEHOUSE_EDGE_UPSTREAM_ALLOW: '127.0.0.0/8' })
  say('replaced the agent of the node; HAProxy was reloaded, not restarted')
  await checkChange('after the upgrade', version)
  await permissions.ofNewer()
  await checkChange('with the permissions of the new version only', version)

  const [edge, api, strangers] = await Promise.all([edgeLoad.stop(), apiLoad.stop(), intruder.stop()])
  await stop(newAgent.child)
  const errors = [...oldPlane.log, ...newPlane.log]
    .filter(({ level }) => level === 'error')
    .map(({ msg, err }) => ({ msg, err }))
  return { edge, api, strangers, errors }

  /** A new site is served, a new rule is enforced, and the node refuses nothing. */
  async function checkChange(when: string, reports: string): Promise<void> {
    type Listed = { live: boolean; version: string; refusals: unknown[] }
    const listed = await poll(
      async (): Promise<Listed> => (await sites.call('GET', '/edge_nodes')).edge_nodes[0],
      (each) => each?.live && each.version === reports && each.refusals.length === 0,
    )
    const host = `added-${hosts.length}.example`
    const policy = await sites.add(host)
    hosts.push(host)
    for (const each of hosts) await sites.check(each)
    await sites.call('POST', '/ip_policy_rules', { ip_policy_id: policy.id, cidr: '127.0.0.8/32', action: 'deny' })
    await poll(async () => (await statusOf(node.httpsPort, host, '127.0.0.8')) === 403)
    say(`changes reach the node ${when}: it reports version ${listed.version} and no refusals`)
  }
}

/** The publisher of the older version must be active, since `migrate` has to get its locks beside it. */
async function isPublishing(origin: string): Promise<string> {
  const metrics = await (await fetch(`${origin}/metrics`)).text()
  if (!/^gatehouse_publisher_active(\{.*\})? 1$/m.test(metrics))
    throw new Error('the publisher of the older version is not active')
  return 'the older publisher is active'
}

function sayWithTime(): (step: string) => void {
  const began = performance.now()
  return (step) => console.log(`${((performance.now() - began) / 1_000).toFixed(1).padStart(6)} s  ${step}`)
}

/** Tries all the time to get in from an address that the policy denies. */
function startIntruder(httpsPort: number, host: string) {
  const observed = { tried: 0, letIn: 0 }
  let isOver = false
  const running = (async () => {
    for (; !isOver; observed.tried++) {
      if ((await statusOf(httpsPort, host, stranger)) === 200) observed.letIn++
      await pause(20)
    }
  })()
  return {
    async stop() {
      isOver = true
      await running
      return observed
    },
  }
}
