import { closest } from '../kernel/closest.ts'
import { wordsAfter } from './commands/completion.ts'
import { type Failure, usageFailure } from './exits.ts'
import { below } from './operations.ts'

const maxSuggested = 5

/** For unknown commands: similar commands, or the words that can follow. */
export function unknownCommand(
  serverCommands: readonly string[],
  group: readonly string[],
  unknown: string | undefined,
): Failure {
  const next = [...new Set(wordsAfter(serverCommands, group))].sort()
  const name = ['gatehouse', ...group].join(' ')
  const more =
    group.length === 0
      ? "Run 'gatehouse --help' for a list of commands."
      : `'${name}' is followed by ${next.join(', ')}. Run '${name} --help' for all commands.`
  if (unknown === undefined) return usageFailure(`'${group.join(' ')}' needs a subcommand`, more)
  const deeper = endingWith(unknown, group)
  const meant = closest(unknown, next)
  const hints = deeper.length
    ? ['Did you mean one of these?', ...deeper.map((words) => `  gatehouse ${words}`)]
    : meant
      ? [`Did you mean '${name} ${meant}'?`]
      : []
  return usageFailure(`unknown command '${[...group, unknown].join(' ')}'`, ...hints, more)
}

/** Suggests `edges https list` and `edges tcp list` for `edges list`, where a word is missing. */
const endingWith = (word: string, group: readonly string[]): string[] =>
  group.length === 0
    ? []
    : below(group)
        .filter(({ words }) => words.slice(group.length + 1).includes(word))
        .toSorted((a, b) => a.words.length - b.words.length || (a.words.join() < b.words.join() ? -1 : 1))
        .slice(0, maxSuggested)
        .map(({ words }) => words.join(' '))
