import { join } from 'node:path'
import { dial } from '../agent/live_harness.ts'
import { gatehouse } from '../harness/command.ts'
import { poll } from '../harness/poll.ts'
import type { World } from './world.ts'

export type Condition = {
  name: string
  begin: () => Promise<void>
  end: () => Promise<void>
  /** What else can be asked. */
  more?: () => Promise<Said>
  /** Whether the API can take a change meanwhile. */
  acceptsChanges: boolean
  /** The node itself cannot serve. */
  isNodeDown?: boolean
  /** The alert that must fire; undefined where none of ours can. */
  alert: string | undefined
  /** What an operator must be told, in one way or another; undefined where nothing is wrong for anyone yet. */
  signs: RegExp | undefined
}
export type Seen = { said: Said; faults: string[] }

const toggled = '127.0.0.9'
/** A refused write is shown for a minute, and firing alerts outlast what they tell of. */
const patient = { withinSeconds: 90 }

const text = async (url: string): Promise<string> => {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(8_000) })
    return `${response.status} ${(await response.text()).trim()}`
  } catch (error) {
    const { message, cause } = error as Error & { cause?: Error }
    return `no answer: ${cause?.message || message}`
  }
}

type Said = Record<string, string>

/** What probes and alerts say now. */
async function glance({ processes, edge, alerts }: World): Promise<Said> {
  const origin = processes.at(-1)?.origin ?? ''
  const [ready, nodeReady] = await Promise.all([`${origin}/readyz`, `${edge.statusUrl}/readyz`].map(text))
  return { '/readyz': `${ready}`, 'node /readyz': `${nodeReady}`, alerts: await alerts.firing() }
}

/** And what an operator is told who asks. */
async function look(world: World): Promise<Said> {
  const { processes, edge, edgeSettings, admin, databaseUrl, nats, publicKey, tcpPorts } = world
  const origin = processes.at(-1)?.origin ?? ''
  const agent = { GATEHOUSE_EDGE_STATUS_LISTEN: new URL(edge.statusUrl).host }
  const ofNode = {
    ...nats.edge,
    ...agent,
    GATEHOUSE_EDGE_NODE: 'edge-1',
    GATEHOUSE_EDGE_TRUSTED_KEYS: publicKey,
    GATEHOUSE_EDGE_FOLDER: edge.folder,
    ...edgeSettings,
    GATEHOUSE_EDGE_CERTIFICATES: join(edge.folder, 'certificates'),
    GATEHOUSE_TCP_PORTS: `${tcpPorts.first}-${tcpPorts.last}`,
    GATEHOUSE_EDGE_TCP_ADDRESSES: '127.0.0.1,[::1]',
    GATEHOUSE_EDGE_HTTPS_LISTEN: `127.0.0.1:${edge.httpsPort}`,
    GATEHOUSE_EDGE_MAX_CONNECTIONS: '100',
  }
  const ofPlane = {
    ...nats.controlPlane,
    GATEHOUSE_DATABASE_URL: databaseUrl,
    GATEHOUSE_LISTEN: new URL(origin).host,
  }
  const [status, plane, node] = await Promise.all([
    gatehouse(['status', '-o', 'json'], { ...agent, GATEHOUSE_URL: origin, GATEHOUSE_API_KEY: admin.token }),
    gatehouse(['doctor', '--output', 'json'], ofPlane),
    gatehouse(['doctor', '--output', 'json'], ofNode),
  ])
  const finding = ({ check, status, message }: Said) => `${check} ${status}: ${message}`
  return {
    ...(await glance(world)),
    status: partsIn(
      status.stdout,
      'parts',
      ({ part, name = '', status, message }) => `${part} ${name} ${status}: ${message}`,
    ),
    doctor: `${partsIn(plane.stdout, 'checks', finding)}; ${partsIn(node.stdout, 'checks', finding)}`,
  }
}

function partsIn(json: string, field: string, say: (part: Record<string, string>) => string): string {
  try {
    const parts: Record<string, string>[] = JSON.parse(json)[field]
    return parts
      .filter(({ status }) => status !== 'ok')
      .map(say)
      .join('; ')
  } catch {
    return json.slice(0, 200)
  }
}

/** Only what is not said when all is well. */
const beyond = (now: Said, healthy: Said): Said =>
  Object.fromEntries(
    Object.entries(now).map(([what, said]) => {
      const known = (healthy[what] ?? '').split('; ')
      return [
        what,
        said
          .split('; ')
          .filter((part) => !known.includes(part))
          .join('; '),
      ]
    }),
  )
const isSilent = (said: Said): boolean => Object.values(said).every((each) => each === '')

const isIn = async ({ guarded }: World): Promise<boolean> => (await dial(guarded.port, toggled)) === 'hello'

/** Allows or denies the address that the drill asks about. */
async function change({ clientFor, admin, processes, guarded }: World, allow: boolean) {
  const rules = ['allow 127.0.0.2', ...(allow ? [`allow ${toggled}`] : [])]
  return clientFor(admin.token)('PUT', `/ip_policies/${guarded.policyId}/rules`, undefined, {
    rawBody: rules.join('\n'),
    contentType: 'text/plain',
    process: processes.length - 1,
  }).catch((error: Error) => ({ status: 0, text: error.message, headers: new Headers() }))
}

async function appliedNodes({ clientFor, admin, processes }: World, generation: number): Promise<number> {
  const answer = await clientFor(admin.token)('GET', `/generations/${generation}`, undefined, {
    process: processes.length - 1,
  }).catch(() => undefined)
  return answer?.body?.applied_nodes ?? 0
}

let healthy: Said | undefined

export async function examine(world: World, condition: Condition): Promise<Seen> {
  healthy ??= await look(world)
  const well = healthy
  const [wasIn, faults] = [await isIn(world), [] as string[]]
  const wanted = !wasIn
  await condition.begin().catch((error: Error) => faults.push(error.message.slice(0, 600)))
  const changed = await change(world, wanted)
  const isAccepted = changed.status === 200
  const generation = Number(changed.headers.get('service-generation') ?? 0)
  if (condition.acceptsChanges && !isAccepted)
    faults.push(`the change was answered with ${changed.status} ${changed.text}`)
  await world.alerts.follow()
  if (!condition.isNodeDown && (await dial(world.guarded.port, '127.0.0.2')) !== 'hello')
    faults.push('the node did not serve an allowed client')

  // As long as the condition lasts, nothing may be said to be applied that is not in force.
  const hasShown = async () => {
    const isApplied = isAccepted && (await appliedNodes(world, generation)) > 0
    if (isApplied && (await isIn(world)) !== wanted)
      faults.push('the change is said to be applied, and is not in force')
    const seen = beyond(await glance(world), well)
    if (condition.alert) return seen.alerts?.includes(condition.alert)
    return isApplied || !isSilent(seen)
  }
  await poll(hasShown, Boolean, { withinSeconds: 40, everyMs: 500 }).catch(() => {})
  const said = { ...beyond(await look(world), well), ...(await condition.more?.()) }
  if (condition.alert && !said.alerts?.includes(condition.alert)) faults.push(`${condition.alert} did not fire`)
  if (condition.signs && !condition.signs.test(JSON.stringify(said))) faults.push(`nothing says ${condition.signs}`)
  const inForce = (await isIn(world)) === wanted ? 'in force' : 'not in force'
  const force = condition.isNodeDown ? 'and the node serves nothing' : inForce
  said.change = isAccepted ? `${changed.status}, ${force}` : `${changed.status}`

  const began = Date.now()
  await condition.end()
  await world.alerts.follow()
  try {
    // What was not acknowledged may have been made or not: it is made now.
    if (!isAccepted)
      await poll(
        () => change(world, wanted),
        ({ status }) => status === 200,
        patient,
      )
    await poll(async () => (await isIn(world)) === wanted, Boolean, patient)
    await poll(async () => isSilent(beyond(await glance(world), well)), Boolean, patient)
    said.recovered = `by itself, after ${((Date.now() - began) / 1_000).toFixed(1)} s`
  } catch (error) {
    faults.push(`not recovered: ${(error as Error).message}; ${JSON.stringify(beyond(await glance(world), well))}`)
  }
  return { said, faults }
}
