import type pg from 'pg'
import { type Call, get } from './client.ts'
import type { Cluster } from './cluster.ts'
import { type Ledger, targetOf } from './ledger.ts'
import { poll } from './wait.ts'

type Route = { id: string; match: string; redirect: { to: string } | null }

async function onGatehouse<Value>(cluster: Cluster, work: (client: pg.Client) => Promise<Value>): Promise<Value> {
  const name = await poll(cluster.primary, Boolean, { everyMs: 500 })
  const client = await cluster.onSocket(name as 'data-1', 20_000, 'gatehouse')
  if (!client) throw new Error('the primary does not answer')
  try {
    return await work(client)
  } finally {
    await client.end()
  }
}

/** What the API says now. */
export async function readRoutes(call: Call, { edgeId }: Ledger): Promise<Map<string, Route>> {
  const routes = new Map<string, Route>()
  let path: string | null = `/edges/https/${edgeId}/routes?limit=100`
  while (path !== null) {
    const { status, body } = await poll(
      () => call('GET', path as string).catch(() => ({ status: 0, body: undefined })),
      (answer) => answer.status === 200,
      { everyMs: 200 },
    )
    if (status !== 200) throw new Error(JSON.stringify(body))
    for (const route of body.routes ?? body.https_edge_routes) routes.set(route.id, route)
    path = body.next_page_uri ? new URL(body.next_page_uri).pathname + new URL(body.next_page_uri).search : null
  }
  return routes
}

/** Where the database contradicts what clients were told. */
export async function ledgerFaults(cluster: Cluster, call: Call, ledger: Ledger): Promise<string[]> {
  const routes = await readRoutes(call, ledger)
  const faults = [...ledger.surprises]
  const known = new Set<string>()
  for (const { id, value, perhaps } of ledger.entries) {
    known.add(id)
    const allowed = [value, ...(perhaps === undefined ? [] : [perhaps])].map((each) => each && targetOf(each))
    const now = routes.get(id)?.redirect?.to ?? null
    if (!allowed.includes(now)) faults.push(`lost: ${id} must be ${allowed.join(' or ')} and is ${now}`)
  }
  for (const { id, match } of routes.values())
    if (!known.has(id) && !ledger.perhapsCreated.has(match)) faults.push(`appeared: ${id} ${match} was never asked for`)
  return [...faults, ...(await recordFaults(cluster, ledger))]
}

/** Every acknowledged change has its audit event and its row of the outbox. */
async function recordFaults(cluster: Cluster, { acknowledged }: Ledger): Promise<string[]> {
  const [operations, generations] = [
    acknowledged.map(({ operation }) => operation),
    acknowledged.map(({ generation }) => generation),
  ]
  return onGatehouse(cluster, async (client) => {
    const audited = await client.query(
      `select given from unnest($1::text[]) given where not exists (select from audit_events where operation_id = given)`,
      [operations],
    )
    const sent = await client.query(
      `select given from unnest($1::bigint[]) given where not exists (select from outbox where generation = given)`,
      [generations],
    )
    return [
      ...audited.rows.map(({ given }) => `${given} has no audit event`),
      ...sent.rows.map(({ given }) => `generation ${given} has no row of the outbox`),
      ...(generations.includes(0) ? ['an answer without its generation'] : []),
    ]
  })
}

/** Waits until both nodes have applied everything, then asks each for each route. */
export async function nodeFaults(cluster: Cluster, call: Call, ledger: Ledger): Promise<string[]> {
  const { rows } = await onGatehouse(cluster, (client) =>
    client.query('select max(generation)::int as newest from outbox'),
  )
  const newest: number = rows[0].newest
  const nodes = await poll(
    () =>
      call('GET', '/edge_nodes').then(
        ({ body }) => body?.edge_nodes ?? [],
        () => [],
      ),
    (all: { live: boolean; applied_generation: number }[]) =>
      all.filter(({ live, applied_generation: applied }) => live && applied >= newest).length === 2,
    { withinSeconds: 90, everyMs: 500 },
  ).catch((error: Error) => error)
  if (nodes instanceof Error) return [`the nodes do not reach generation ${newest}: ${nodes.message.slice(0, 1_000)}`]
  const routes = [...(await readRoutes(call, ledger)).values()]
  const gone = ledger.entries.filter(({ value, perhaps }) => value === null && perhaps === undefined).slice(-100)
  const wanted = [
    ...routes.map(({ match, redirect }) => [match, redirect?.to ?? ''] as const),
    ...gone.map(({ path }) => [path, undefined] as const),
  ]
  const faults: string[] = []
  for (const name of ['edge-1', 'edge-2'] as const)
    for (const [path, to] of wanted) {
      const url = `https://${cluster.machines[name].address}${path}`
      const response = await get(url, { host: 'app.example' }, 'app.example')
      response.resume()
      if (response.headers.location !== to)
        faults.push(`${name} sends ${path} to ${response.headers.location}, not to ${to}`)
    }
  return faults
}
