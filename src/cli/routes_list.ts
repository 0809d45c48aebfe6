import { type Connection, call } from './call.ts'
import { exits, usageFailure } from './exits.ts'
import { parseOwn } from './flags.ts'
import { write } from './output.ts'
import { allPages } from './pages.ts'
import { connect } from './perform.ts'
import type { ClientConfig } from './profiles.ts'
import { describeRows } from './table.ts'
import { log } from './terminal.ts'

const usage = `List the routes of all HTTPS edges, or of one.

Usage
  gatehouse edges https routes list [EDGE_ID] [flags]

Flags
  --output FORMAT    table, json or ids; default table
  --profile NAME     profile to use instead of the environment or the current profile
  --timeout SECONDS  how long a request may take; default 60
  -h, --help         show this help`

const options = {
  output: { type: 'string', default: 'table' },
  profile: { type: 'string' },
  timeout: { type: 'string' },
  verbose: { type: 'boolean', short: 'v' },
  help: { type: 'boolean', short: 'h' },
} as const

type Route = { id: string; edge_id: string; match_type: string; match: string }
type Edge = { hostports: string[]; routes: Route[] }

/** The API has no list of routes: they come with their edges. */
export async function routesListCommand(config: ClientConfig, args: string[]): Promise<number> {
  const { values, positionals } = parseOwn({ args, options, allowPositionals: true }, usage)
  if (values.help) {
    write(usage)
    return exits.ok.code
  }
  const [edgeId, ...more] = positionals
  if (more.length > 0) throw usageFailure('at most one edge ID is needed', ...usage.split('\n'))
  if (!['table', 'json', 'ids'].includes(values.output)) throw usageFailure('--output must be table, json or ids')
  const edges = await edgesOf(connect(config, values), edgeId)
  const routes = edges.flatMap(({ hostports, routes }) => routes.map((route) => ({ ...route, hostports })))
  if (values.output === 'json') write(JSON.stringify({ https_edge_routes: routes }, null, 2))
  else if (values.output === 'ids') write(routes.map(({ id }) => id).join('\n'))
  else if (routes.length === 0) log('No results.')
  else write(describeRows(routes, ['id', 'edge_id', 'hostports', 'match_type', 'match', 'backend', 'description']))
  return exits.ok.code
}

async function edgesOf(connection: Connection, id: string | undefined): Promise<Edge[]> {
  const path = '/edges/https'
  if (id !== undefined)
    return [JSON.parse((await call(connection, { method: 'GET', path: `${path}/${encodeURIComponent(id)}` })).text)]
  const { text } = await allPages(connection, 'https_edges', { method: 'GET', path, query: { limit: 100 } })
  return (JSON.parse(text) as { https_edges: Edge[] }).https_edges
}
