// The provider as Terraform starts it, called over gRPC. It holds the provider to the rules that Terraform holds it to.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { isDeepStrictEqual } from 'node:util'
import { type Client, credentials, makeGenericClientConstructor } from '@grpc/grpc-js'
import { ownCertificate } from '../../src/terraform/certificate.ts'
import { decode, encode, isObject, unknownValue, type Value } from '../../src/terraform/message_pack.ts'
import { services } from '../../src/terraform/plugin.ts'
import type { Scope } from '../harness/control_plane.ts'
import { program } from '../harness/program.ts'

// biome-ignore lint/suspicious/noExplicitAny: messages have the types of the .proto, which the compiler does not read.
type Any = any
export type State = Readonly<Record<string, Value>>
export type Attribute = {
  name: string
  required: boolean
  optional: boolean
  computed: boolean
  sensitive: boolean
  write_only: boolean
  nested_type: { attributes: Attribute[]; nesting: number } | null
}
type Call = (name: string, request?: object) => Promise<Any>

const cookie = 'd602bf8f470bc67ca7faa0386276bbdd4330efaf76d1a219cb4d6991ca9872b2'

/** Resolves to a way to call it, as the holder of `own` or of another certificate. */
export async function startProvider(scope: Scope, env: Record<string, string>, own = ownCertificate(Date.now())) {
  const ours = Object.entries(process.env).filter(([name]) => !name.startsWith('GATEHOUSE_'))
  const child = spawn(process.execPath, [program, 'terraform-provider'], {
    env: {
      ...Object.fromEntries(ours),
      ...env,
      TF_PLUGIN_MAGIC_COOKIE: cookie,
      PLUGIN_CLIENT_CERT: own.certificatePem,
    },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  scope.after(async () => {
    child.kill('SIGKILL')
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
  })
  const [line] = await once(createInterface(child.stdout), 'line')
  const [version, protocol, network, address = '', kind, certificate] = String(line).split('|')
  assert.deepEqual([version, protocol, network, kind], ['1', '6', 'unix', 'grpc'])
  const serverPem = `-----BEGIN CERTIFICATE-----\n${certificate}\n-----END CERTIFICATE-----\n`
  const { provider, controller } = services()
  const Provider = makeGenericClientConstructor({ ...provider, ...controller }, 'Provider')
  const clientWith = ({ certificatePem, keyPem }: typeof own): Call => {
    const client: Any = new Provider(
      `unix:${address}`,
      credentials.createSsl(Buffer.from(padded(serverPem)), Buffer.from(keyPem), Buffer.from(certificatePem)),
      { 'grpc.ssl_target_name_override': 'localhost', 'grpc.max_receive_message_length': -1 },
    )
    scope.after(async () => (client as Client).close())
    return (name, request = {}) =>
      new Promise((resolve, reject) =>
        client[name](request, (error: Error | null, response: Any) => (error ? reject(error) : resolve(response))),
      )
  }
  return { call: clientWith(own), clientWith, child, address }
}

/** OpenSSL wants the padding that go-plugin leaves out. */
const padded = (pem: string): string =>
  pem.replace(/\n([^-\n]+)\n/, (_, text: string) => `\n${text.padEnd(Math.ceil(text.length / 4) * 4, '=')}\n`)

export const packed = (value: Value) => ({ msgpack: encode(value) })
export const unpacked = (value: Any): State | null => {
  const read = value ? decode(value.msgpack) : null
  return isObject(read) ? read : null
}

/** What Terraform would print. */
export const messagesOf = ({ diagnostics = [] }: Any): string[] =>
  diagnostics.map(({ summary, detail }: Any) => `${summary}\n${detail}`)
function noErrors(response: Any): Any {
  const errors = { diagnostics: (response.diagnostics ?? []).filter(({ severity }: Any) => severity === 1) }
  assert.deepEqual(messagesOf(errors), [])
  return response
}

/** Terraform's part for one type of resource. */
export async function coreFor(call: Call, type_name: string) {
  const { resource_schemas } = await call('GetProviderSchema')
  const attributes: Attribute[] = resource_schemas[type_name].block.attributes

  async function planned(config: object, prior: State | null) {
    const whole = complete(attributes, config)
    const capable = { write_only_attributes_allowed: true }
    noErrors(await call('ValidateResourceConfig', { type_name, config: packed(whole), client_capabilities: capable }))
    const request = { type_name, prior_state: packed(prior), proposed_new_state: packed(whole), config: packed(whole) }
    const { planned_state, requires_replace } = noErrors(await call('PlanResourceChange', request))
    const state = unpacked(planned_state) ?? assert.fail()
    assertPlan(attributes, whole, prior, state)
    const replaces: string[] = requires_replace.map(({ steps }: Any) => steps[0].attribute_name)
    return { whole, state, replaces, isChange: !isDeepStrictEqual(state, prior) }
  }

  async function apply(config: object, prior: State | null): Promise<State> {
    const { whole, state, replaces } = await planned(config, prior)
    assert.deepEqual(replaces, [], 'a replacement was not expected')
    const request = { type_name, prior_state: packed(prior), planned_state: packed(state), config: packed(whole) }
    const { new_state } = noErrors(await call('ApplyResourceChange', request))
    const applied = unpacked(new_state) ?? assert.fail()
    assertApplied(state, applied, type_name)
    assert.deepEqual(await read(applied), applied, 'reading it changes the state')
    assert.equal((await planned(config, applied)).isChange, false, `the second plan of ${type_name} has changes`)
    return applied
  }

  const read = async (state: State): Promise<State | null> =>
    unpacked(noErrors(await call('ReadResource', { type_name, current_state: packed(state) })).new_state)

  async function imported(id: string): Promise<State> {
    const { imported_resources } = noErrors(await call('ImportResourceState', { type_name, id }))
    return (await read(unpacked(imported_resources[0].state) ?? assert.fail())) ?? assert.fail('it is not there')
  }

  const destroy = async (prior: State): Promise<void> => {
    const nothing = packed(null)
    const request = { type_name, prior_state: packed(prior), planned_state: nothing, config: nothing }
    assert.equal(unpacked(noErrors(await call('ApplyResourceChange', request)).new_state), null)
  }
  return { attributes, planned, apply, read, imported, destroy }
}

/** A configuration has every attribute, null where nothing is written. */
export const complete = (attributes: readonly Attribute[], config: object): State =>
  Object.fromEntries(
    attributes.map(({ name, nested_type }): [string, Value] => {
      const value = (config as State)[name] ?? null
      return [name, nested_type?.nesting === 1 && isObject(value) ? complete(nested_type.attributes, value) : value]
    }),
  )

/** Where the configuration has a value, the plan has it too, or the previous one. Only computed attributes may differ. */
function assertPlan(attributes: readonly Attribute[], config: State, prior: State | null, plan: State): void {
  for (const { name, computed, write_only, nested_type } of attributes) {
    const [given, old, now]: readonly Value[] = [config[name] ?? null, prior?.[name] ?? null, plan[name] ?? null]
    if (write_only) assert.equal(now, null, `${name} is in the plan`)
    else if (nested_type?.nesting === 1 && isObject(given) && isObject(now))
      assertPlan(nested_type.attributes, given, isObject(old) ? old : null, now)
    else if (given === null) assert.ok(computed || now === null, `${name} is not computed, and has a value`)
    else
      assert.ok(isDeepStrictEqual(now, given) || (old !== null && isDeepStrictEqual(now, old)), `${name} was changed`)
  }
}

/** What was known in the plan has come true, and nothing is unknown. */
function assertApplied(plan: Value, applied: Value, place: string): void {
  assert.notEqual(applied, unknownValue, `${place} is still unknown`)
  if (plan === unknownValue) return
  if (isObject(plan) && isObject(applied))
    for (const name of new Set([...Object.keys(plan), ...Object.keys(applied)]))
      assertApplied(plan[name] ?? null, applied[name] ?? null, `${place}.${name}`)
  else assert.deepEqual(applied, plan, place)
}
