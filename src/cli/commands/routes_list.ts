import type { Connection } from '../call.ts'
import { exits, usageFailure } from '../exits.ts'
import { callFlags, parseOwn } from '../flags.ts'
import { write } from '../output/output.ts'
import { describeRows } from '../output/table.ts'
import { log } from '../output/terminal.ts'
import { allPages } from '../pages.ts'
import { connect } from '../perform.ts'
import type { ClientConfig } from '../profiles.ts'

const usage = `List the routes of all HTTPS edges. With the id of an edge, list only its routes: see
'gatehouse edges https routes list EDGE_ID --help' for filters and columns.

Usage
  gatehouse edges https routes list [EDGE_ID] [flags]

Flags
  --output FORMAT    table, json or ids; default table
  --profile NAME     profile to use instead of the environment or the current profile
  --timeout SECONDS  how long a request may take; default 60
  -h, --help         show this help`

const options = {
  output: { type: 'string', default: 'table' },
  ...callFlags,
} as const

type Route = { id: string; edge_id: string; match_type: string; match: string }
type Edge = { hostports: string[]; routes: Route[] }

/** The API cannot list the routes of all edges; it returns them with their edges. */
export async function routesListCommand(config: ClientConfig, args: string[]): Promise<number> {
  const { values, positionals } = parseOwn({ args, options, allowPositionals: true }, usage)
  if (values.help) {
    write(usage)
    return exits.ok.code
  }
  if (positionals.length > 0) throw usageFailure('at most one edge ID is needed', ...usage.split('\n'))
  if (!['table', 'json', 'ids'].includes(values.output)) throw usageFailure('--output must be table, json or ids')
  const edges = await allEdges(connect(config, values))
  const routes = edges.flatMap(({ hostports, routes }) => routes.map((route) => ({ ...route, hostports })))
  if (values.output === 'json') write(JSON.stringify({ https_edge_routes: routes }, null, 2))
  else if (values.output === 'ids') write(routes.map(({ id }) => id).join('\n'))
  else if (routes.length === 0) log('No results.')
  else write(describeRows(routes, ['id', 'edge_id', 'hostports', 'match_type', 'match', 'backend', 'description']))
  return exits.ok.code
}

async function allEdges(connection: Connection): Promise<Edge[]> {
  const request = { method: 'GET', path: '/edges/https', query: { limit: 100 } }
  const { text } = await allPages(connection, 'https_edges', request)
  return (JSON.parse(text) as { https_edges: Edge[] }).https_edges
}
