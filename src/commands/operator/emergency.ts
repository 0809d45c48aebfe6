import { createPrivateKey, createPublicKey, randomBytes } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import {
  isOrderId,
  liftOf,
  longestOrderSeconds,
  newOrder,
  type Order,
  sealOrder,
} from '../../distribution/emergency.ts'
import { createSigner, newSigningKey, publicKeyText, type Signer } from '../../distribution/signature.ts'
import { ConfigError } from '../../kernel/config_error.ts'
import { cellNamePattern } from '../../kernel/edge/cells.ts'
import { readLife } from '../life.ts'

const text = { type: 'string' } as const
const key = { ...text, default: 'emergency.key' }
const cell = { ...text, multiple: true } as const

/** Orders for edge nodes while the control plane is down. Needs no settings, database or network. */
export function emergency(verb: string, args: string[]): number {
  switch (verb) {
    case 'init':
      return init(args)
    case 'refuse':
      return refuse(args)
    case 'lift':
      return lift(args)
    default:
      console.error("gatehouse: unknown command; expected 'emergency' init, refuse or lift")
      return 2
  }
}

function init(args: string[]): number {
  const { values } = parseArgs({ args, options: { key } })
  const { publicKey, privateKey } = newSigningKey()
  try {
    writeFileSync(values.key, privateKey, { mode: 0o600, flag: 'wx' })
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    throw new ConfigError(code === 'EEXIST' ? `${values.key} exists already, and is not overwritten` : message)
  }
  console.log(publicKey)
  console.error(
    `The private key is in ${values.key}. Keep it offline: who has it can refuse traffic on every node.
Set GATEHOUSE_EMERGENCY_KEYS=${publicKey} on the control plane, for nodes that join from now on,
and GATEHOUSE_EDGE_EMERGENCY_KEYS=${publicKey} on each node that has joined already.`,
  )
  return 0
}

function refuse(args: string[]): number {
  const options = {
    key,
    cell,
    for: { ...text, default: '1h' },
    reason: { ...text, default: '' },
    everyone: { type: 'boolean', default: false },
  } as const
  const { values, positionals } = parseArgs({ args, options, allowPositionals: true })
  if (positionals.length === 0)
    throw new ConfigError('usage: gatehouse emergency refuse RANGE… [--cell NAME] [--for 2h]')
  const lifeSeconds = readLife('--for', values.for, longestOrderSeconds)
  const order = orderOf(() =>
    newOrder(
      {
        id: randomBytes(6).toString('hex'),
        cells: cellsOf(values.cell ?? []),
        refuse: positionals,
        reason: values.reason,
        lifeSeconds,
      },
      Date.now(),
    ),
  )
  if (order.refuse.some((range) => range.endsWith('/0')) && !values.everyone)
    throw new ConfigError('this refuses everyone. If that is what you want, add --everyone')
  console.log(sealOrder(order, signerOf(values.key)))
  console.error(`Order ${order.id}: ${nodesOf(order)} refuse ${order.refuse.join(', ')} until ${order.expiresAt}.
On each node: gatehouse-edge apply-emergency FILE. To end it earlier: gatehouse emergency lift ${order.id}`)
  return 0
}

function lift(args: string[]): number {
  const { values, positionals } = parseArgs({ args, options: { key, cell }, allowPositionals: true })
  const [id = '', ...more] = positionals
  if (!isOrderId(id) || more.length > 0) throw new ConfigError('usage: gatehouse emergency lift ID')
  const order = liftOf(id, cellsOf(values.cell ?? []), Date.now())
  console.log(sealOrder(order, signerOf(values.key)))
  console.error(`Ends order ${id} on ${nodesOf(order)}. On each node: gatehouse-edge apply-emergency FILE`)
  return 0
}

const nodesOf = ({ cells }: Order): string =>
  cells.length === 0 ? 'nodes of all cells' : `nodes of ${cells.join(', ')}`

function cellsOf(names: readonly string[]): readonly string[] {
  const wrong = names.find((name) => !new RegExp(cellNamePattern).test(name))
  if (wrong !== undefined) throw new ConfigError(`--cell ${wrong} is not the name of a cell`)
  return names
}

function orderOf(make: () => Order): Order {
  try {
    return make()
  } catch (error) {
    throw new ConfigError((error as Error).message)
  }
}

function signerOf(file: string): Signer {
  try {
    const pem = readFileSync(file, 'utf8')
    return createSigner(publicKeyText(createPublicKey(createPrivateKey(pem))), pem)
  } catch (error) {
    throw new ConfigError(`--key ${file} cannot be used: ${(error as Error).message}`)
  }
}
