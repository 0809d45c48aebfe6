// `gatehouse mcp`: started by clients of the Model Context Protocol.
import { once } from 'node:events'
import { fromJsonSchema, type JsonSchemaType, McpServer } from '@modelcontextprotocol/server'
import { serveStdio } from '@modelcontextprotocol/server/stdio'
import { exits, Failure } from '../exits.ts'
import { callFlags, parseOwn } from '../flags.ts'
import { write } from '../output/output.ts'
import { log } from '../output/terminal.ts'
import { connect } from '../perform.ts'
import type { ClientConfig } from '../profiles.ts'
import { failedResult, type Result } from './result.ts'
import type { Values } from './send.ts'
import { instructions, type Tool, tools } from './tools.ts'

const usage = `Let an assistant read the account and propose changes, over the Model Context Protocol.

Usage
  gatehouse mcp [flags]

Flags
  --profile NAME     profile to use instead of the environment or the current profile
  --timeout SECONDS  how long a request to the service may take; default 60
  -v, --verbose      print each request and its operation id to standard error
  -h, --help         show this help

A client starts it, and speaks with it over standard input and output. It can do what the API key may
read, and make drafts of change sets. It applies nothing: 'gatehouse change-sets apply' does.`

export async function mcpCommand(config: ClientConfig, args: string[]): Promise<number> {
  const { values } = parseOwn({ args, options: callFlags }, usage)
  if (values.help) {
    write(usage)
    return exits.ok.code
  }
  // Checked at the start, so that a misconfigured client fails immediately.
  connect(config, values)
  if (process.stdin.isTTY)
    log("This waits for a client of the Model Context Protocol. 'gatehouse mcp --help' says more.")
  const ended = Promise.race([once(process.stdin, 'end'), once(process.stdin, 'close')])
  serveStdio(() => serverWith(config, values))
  await ended
  // Exits instead of returning: a pending request to the service would keep the process alive.
  process.exit(exits.ok.code)
}

type Flags = { profile?: string; timeout?: string; verbose?: boolean }

function serverWith(config: ClientConfig, flags: Flags): McpServer {
  const server = new McpServer({ name: 'gatehouse', version: config.version }, { instructions })
  for (const tool of tools) {
    const { name, title, description, input, changes } = tool
    const inputSchema = { type: 'object', additionalProperties: false, ...input } as JsonSchemaType
    server.registerTool(
      name,
      {
        title,
        description,
        inputSchema: fromJsonSchema<Values>(inputSchema),
        annotations: {
          readOnlyHint: changes === undefined,
          destructiveHint: changes !== undefined && changes !== 'change_sets.create',
          openWorldHint: false,
        },
      },
      (given) => answered(tool, config, flags, given),
    )
  }
  return server
}

/** Reads the profile for each call, so that a renewed sign-in takes effect without a restart. */
async function answered(tool: Tool, config: ClientConfig, flags: Flags, given: Values): Promise<Result> {
  let [url, token] = ['', '']
  try {
    const connection = connect(config, flags)
    ;[url, token] = [connection.url, connection.token]
    return withoutToken(await tool.run(connection, given), token)
  } catch (error) {
    if (!(error instanceof Failure)) throw error
    return withoutToken(failedResult(error, url), token)
  }
}

/** Descriptions may contain anything that someone wrote. */
const withoutToken = (result: Result, token: string): Result =>
  token
    ? {
        ...result,
        content: result.content.map(({ text, type }) => ({ type, text: text.replaceAll(token, '[token]') })),
      }
    : result
