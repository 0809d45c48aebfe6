import assert from 'node:assert/strict'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { Client } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import type { Scope } from '../harness/control_plane.ts'
import { program } from '../harness/program.ts'
import { testRun } from '../harness/test_run.ts'

// biome-ignore lint/suspicious/noExplicitAny: a test reads the fields that it expects.
export type Json = any
export type Answered = { text: string; isError: boolean; json: Json }
export type Session = {
  client: Client
  call: (name: string, given?: object) => Promise<Answered>
  /** What it found, where it must find something. */
  data: (name: string, given?: object) => Promise<Json>
  /** Why it found nothing. */
  refused: (name: string, given?: object) => Promise<string>
  /** Everything that it has said, on both ways. */
  said: () => string
}

export const environment = (url: string, token: string): Record<string, string> => ({
  ...Object.fromEntries(
    Object.entries(process.env).flatMap(([name, value]) =>
      value === undefined || name.startsWith('GATEHOUSE_') ? [] : [[name, value]],
    ),
  ),
  GATEHOUSE_URL: url,
  GATEHOUSE_API_KEY: token,
  XDG_CONFIG_HOME: join(testRun.folder, 'no-profiles'),
})

/** `gatehouse mcp`, started by the client of the SDK. */
export async function startSession(scope: Scope, url: string, token: string, args: string[] = []): Promise<Session> {
  const transport = new StdioClientTransport({
    command: process.execPath,
    args: [program, 'mcp', ...args],
    env: environment(url, token),
    stderr: 'pipe',
  })
  const heard: string[] = []
  ;(transport.stderr as Readable | null)?.on('data', (part: Buffer) => heard.push(part.toString()))
  const client = new Client({ name: 'a test', version: '1' })
  client.onerror = (error) => heard.push(`client: ${error.message}`)
  await client.connect(transport)
  scope.after(() => client.close())

  const call = async (name: string, given: object = {}) => {
    const { content, isError = false } = await client.callTool({ name, arguments: given as Record<string, unknown> })
    const text = content.map((part) => (part.type === 'text' ? part.text : assert.fail(part.type))).join('\n')
    heard.push(text)
    return { text, isError, json: isError ? undefined : JSON.parse(text) }
  }
  const data = async (name: string, given?: object) => {
    const { json, isError, text } = await call(name, given)
    assert.ok(!isError, text)
    return json.data ?? json
  }
  const refused = async (name: string, given?: object) => {
    const { isError, text } = await call(name, given)
    assert.ok(isError, text)
    return text
  }
  return { client, call, data, refused, said: () => heard.join('\n') }
}
