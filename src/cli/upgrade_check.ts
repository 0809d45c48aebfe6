import { call, Refused } from './call.ts'
import { exits, usageFailure } from './exits.ts'
import { callFlags, parseOwn } from './flags.ts'
import { operations } from './operations.ts'
import { write } from './output/output.ts'
import { describeRows } from './output/table.ts'
import { allPages } from './pages.ts'
import { connect } from './perform.ts'
import type { ClientConfig } from './profiles.ts'

const usage = `Compare the versions of this command, the service and its edge nodes, and say what an upgrade still
has to do. It asks no other server, so it does not know of newer releases.

Usage
  gatehouse upgrade check [flags]

Flags
  --profile NAME     profile to use instead of the environment or the current profile
  --timeout SECONDS  how long a request may take; default 60
  -h, --help         show this help

Exits with ${exits.different.code} if the versions differ.`

type Node = { name: string; version: string | null; live: boolean }
type Document = { info: { version: string }; paths: Record<string, Record<string, { operationId: string }>> }

export async function upgradeCommand(config: ClientConfig, args: string[]): Promise<number> {
  const { values, positionals } = parseOwn({ args, options: callFlags, allowPositionals: true }, usage)
  if (values.help || positionals.length === 0) {
    write(usage)
    return exits.ok.code
  }
  if (positionals.join(' ') !== 'check')
    throw usageFailure(`unknown command 'upgrade ${positionals.join(' ')}'`, "Did you mean 'gatehouse upgrade check'?")
  const connection = connect(config, values)
  const document = await documentOf(() => call(connection, { method: 'GET', path: '/openapi.json' }))
  const { text } = await allPages(connection, 'edge_nodes', { method: 'GET', path: '/edge_nodes' })
  const nodes = (JSON.parse(text) as { edge_nodes: Node[] }).edge_nodes
  const rows = [
    { part: 'this command', version: config.version },
    { part: 'service', version: document?.info.version ?? 'unknown: it does not serve /openapi.json' },
    ...nodes.map(({ name, version, live }) => ({
      part: `edge node ${name}${live ? '' : ' (not live)'}`,
      version: version ?? 'unknown',
    })),
  ]
  write(describeRows(rows, ['part', 'version']))
  const advice = adviceFor(config.version, document, nodes)
  write(['', ...(advice.length ? advice : ['All versions are the same.'])].join('\n'))
  return advice.length ? exits.different.code : exits.ok.code
}

async function documentOf(ask: () => Promise<{ text: string }>): Promise<Document | undefined> {
  try {
    return JSON.parse((await ask()).text) as Document
  } catch (error) {
    // The operator may have disabled the documentation.
    if (error instanceof Refused && error.status === 404) return undefined
    throw error
  }
}

function adviceFor(own: string, document: Document | undefined, nodes: readonly Node[]): string[] {
  const service = document?.info.version
  const served = new Set(
    Object.values(document?.paths ?? {}).flatMap((path) => Object.values(path).map(({ operationId }) => operationId)),
  )
  const missing = document ? operations.filter(({ id }) => !served.has(id)).map(({ words }) => words.join(' ')) : []
  const others = nodes.filter(({ version }) => version !== service).map(({ name }) => name)
  return [
    ...(service === undefined ? ['The version of the service is unknown, so nothing can be compared with it.'] : []),
    ...(service !== undefined && service !== own
      ? [`This command is ${own} and the service ${service}: install the same version.`]
      : []),
    ...(missing.length ? [`The service does not have: ${missing.join('; ')}.`] : []),
    ...(service !== undefined && others.length
      ? [
          `These edge nodes are not at ${service}: ${others.join(', ')}. The service is upgraded first, then the nodes, one by one.`,
        ]
      : []),
  ]
}
