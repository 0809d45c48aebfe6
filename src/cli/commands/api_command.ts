import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { call } from '../call.ts'
import { exits, usageFailure } from '../exits.ts'
import { callFlags, notAmong, parseOwn } from '../flags.ts'
import { write } from '../output/output.ts'
import { readStandardInput } from '../output/terminal.ts'
import { connect } from '../perform.ts'
import type { ClientConfig } from '../profiles.ts'

const usage = `Send a request to the API, with the URL and the token of the profile, and print the response.

Usage
  gatehouse api METHOD PATH [flags]

Flags
  --data JSON|@FILE|-    request body: inline, from a file, or from standard input
  --header NAME:VALUE    header to send; can be repeated
  --profile NAME         profile to use instead of the environment or the current profile
  --timeout SECONDS      how long the request may take; default 60
  -v, --verbose          print the status, the operation id and the ETag to standard error
  -h, --help             show this help

Examples
  gatehouse api GET '/api_keys?limit=1'
  gatehouse api PATCH /ip_policies/ipp_… --data '{"description": "office"}' --header 'If-Match: "…"'

JSON is printed with indentation, other responses as they are. Exit codes are those of other
commands.`

const options = {
  data: { type: 'string' },
  header: { type: 'string', multiple: true },
  ...callFlags,
} as const

const methods = ['GET', 'POST', 'PATCH', 'PUT', 'DELETE']

/** For requests that no command covers. Sends them like all commands do. */
export async function apiCommand(config: ClientConfig, args: string[]): Promise<number> {
  const { values, positionals } = parseOwn({ args, options, allowPositionals: true }, usage)
  if (values.help) {
    write(usage)
    return exits.ok.code
  }
  const [typed = '', path = '', ...more] = positionals
  const method = typed.toUpperCase()
  if (!path || more.length) throw usageFailure('api needs a method and a path', "See 'gatehouse api --help'.")
  if (!methods.includes(method)) throw notAmong('the method', method, methods)
  // The token goes to the configured service only.
  if (!/^\/(?!\/)/.test(path))
    throw usageFailure(`the path must begin with a single '/', such as /api_keys, not '${path}'`)
  const body = await bodyOf(values.data)
  const { text } = await call(connect(config, values), {
    method,
    path,
    headers: {
      ...(method === 'POST' && { 'idempotency-key': randomUUID() }),
      ...Object.fromEntries((values.header ?? []).map(headerOf)),
    },
    ...(body !== undefined && { body }),
    // The response may have any content type.
    accept: '',
  })
  write(indented(text))
  return exits.ok.code
}

async function bodyOf(data: string | undefined): Promise<string | undefined> {
  if (data === '-') return readStandardInput()
  if (!data?.startsWith('@')) return data
  try {
    return readFileSync(data.slice(1), 'utf8')
  } catch (cause) {
    throw usageFailure(`${data.slice(1)} cannot be read: ${(cause as Error).message}`)
  }
}

function headerOf(text: string): [string, string] {
  const [, name, value] = /^([\w-]+):\s*(.*)$/.exec(text) ?? []
  if (name === undefined) throw usageFailure(`--header must be NAME:VALUE, not '${text}'`)
  if (name.toLowerCase() === 'authorization') throw usageFailure('the token comes from the profile or the environment')
  return [name.toLowerCase(), value ?? '']
}

function indented(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2)
  } catch {
    return text.trimEnd()
  }
}
