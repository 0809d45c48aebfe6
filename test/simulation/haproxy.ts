import { type MapName, mapNames } from '../../src/agent/haproxy/maps/entries.ts'
import type { HaproxyProcess } from '../../src/agent/haproxy/process/process.ts'
import { type MapRuntime, RuntimeError } from '../../src/agent/haproxy/process/runtime.ts'
import type { Disk } from './disk.ts'
import type { Process, Scheduler } from './scheduler.ts'

export type Maps = ReadonlyMap<MapName, ReadonlyMap<string, string>>

/** HAProxy with its maps: it outlives the agent, reads files when it starts or reloads, and takes commands in between. */
export function createHaproxy(scheduler: Scheduler, disk: Disk, fileOf: (map: MapName) => string, name: string) {
  const { chance } = scheduler
  let maps = new Map<MapName, Map<string, string>>()
  let isAlive = false
  let lost = () => {}
  /** One in so many commands gets no answer. */
  let refusesOneIn = 0
  /** One in so many commands is answered as if it had worked, and has not. */
  let losesOneIn = 0
  let onChange = () => {}

  function load(): void {
    const loaded = new Map<MapName, Map<string, string>>()
    for (const map of mapNames) {
      const text = disk.textOf(fileOf(map))
      if (text === undefined) throw new Error(`HAProxy cannot read ${fileOf(map)}`)
      const lines = text.split('\n').filter(Boolean)
      loaded.set(
        map,
        new Map(lines.map((line) => [line.slice(0, line.indexOf(' ')), line.slice(line.indexOf(' ') + 1)])),
      )
    }
    maps = loaded
    isAlive = true
    scheduler.tell(name, 'HAProxy has read its files')
    onChange()
  }

  const runtimeOf = (process: Process): MapRuntime => ({
    async change(commands, places = []) {
      for (const command of commands)
        await scheduler.takes(process, chance.next() * 2, () => {
          if (!isAlive) throw new RuntimeError('HAProxy does not answer')
          if (refusesOneIn > 0 && chance.below(refusesOneIn) === 0)
            throw new RuntimeError('HAProxy did not answer in time')
          if (losesOneIn > 0 && chance.below(losesOneIn) === 0)
            return scheduler.tell(name, `HAProxy loses: ${command.kind} ${command.map} ${command.key}`)
          const { kind, map, key } = command
          const entries = maps.get(map) as Map<string, string>
          if (kind === 'add' ? entries.has(key) : !entries.has(key))
            throw new RuntimeError(`HAProxy cannot ${kind} ${key} in the map ${map}`)
          if (kind === 'del') entries.delete(key)
          else entries.set(key, command.value)
          scheduler.tell(name, `HAProxy: ${kind} ${map} ${key}${kind === 'del' ? '' : ` ${command.value}`}`)
          onChange()
        })
      return places.length > 0 ? this.lookUp(places) : []
    },
    lookUp: (places) =>
      scheduler.takes(process, chance.next() * 2, () => {
        if (!isAlive) throw new RuntimeError('HAProxy does not answer')
        return places.map(({ map, key }) => maps.get(map)?.get(key))
      }),
    size: (map) =>
      scheduler.takes(process, chance.next() * 2, () => {
        if (!isAlive) throw new RuntimeError('HAProxy does not answer')
        return maps.get(map)?.size ?? 0
      }),
    async *entries(map) {
      yield* await scheduler.takes(process, chance.next() * 2, () => {
        if (!isAlive) throw new RuntimeError('HAProxy does not answer')
        return [...(maps.get(map) as Map<string, string>)]
      })
    },
  })

  const processOf = (process: Process): HaproxyProcess => {
    const wait = <Result>(ms: number, work: () => Result) => scheduler.takes(process, chance.next() * ms, work)
    return {
      attach: () => wait(5, () => isAlive),
      check: () => wait(20, () => {}),
      start: () => wait(100, load),
      reload: () => wait(100, load),
      isAlive: () => isAlive,
      onLost(listener) {
        lost = () => process.isAlive && scheduler.at(200, process, listener)
      },
      closeKeptConnections: () => wait(2, () => {}),
      keepConnections: () => wait(2, () => {}),
      finish: () => wait(2, () => {}),
      stop: () => wait(2, () => {}),
      detach() {},
    }
  }

  return {
    runtimeOf,
    processOf,
    maps: (): Maps => maps,
    isAlive: () => isAlive,
    refuse(oneIn: number): void {
      refusesOneIn = oneIn
    },
    lose(oneIn: number): void {
      losesOneIn = oneIn
    },
    onChange(listener: () => void): void {
      onChange = listener
    },
    /** Killed, or with its machine: then there is no agent that hears of it. */
    die(): void {
      if (!isAlive) return
      scheduler.tell(name, 'HAProxy dies')
      isAlive = false
      lost()
    },
  }
}
export type Haproxy = ReturnType<typeof createHaproxy>
