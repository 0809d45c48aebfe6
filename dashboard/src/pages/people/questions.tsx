import { answerOf, api } from '../../api/client.ts'
import { useRefresh } from '../../api/queries.ts'
import { Confirm } from '../../ui/confirm.tsx'
import type { Person } from './person.ts'

type Props = { person: Person; onClose: () => void }

const keysOf = ({ keys = 0 }: Person): string => (keys === 1 ? '1 API key' : `${keys} API keys`)
const pathOf = ({ id }: Person) => ({ params: { path: { id } } })

export function SetActive({ person, isActive, onClose }: Props & { isActive: boolean }) {
  const refresh = useRefresh()
  const body = { active: isActive }
  return (
    <Confirm
      title={`${isActive ? 'Activate' : 'Deactivate'} ${person.name}?`}
      action={isActive ? 'Activate' : 'Deactivate'}
      act={() =>
        person.kind === 'user'
          ? answerOf(api.PATCH('/users/{id}', { ...pathOf(person), body }))
          : answerOf(api.PATCH('/bot_users/{id}', { ...pathOf(person), body }))
      }
      onDone={async () => {
        onClose()
        await refresh(person.kind === 'user' ? '/users' : '/bot_users')
      }}
      onClose={onClose}
    >
      <p>
        {isActive
          ? `The keys of ${person.name} work again: ${keysOf(person)}.`
          : `${keysOf(person)} of ${person.name} stop working immediately, and sessions end. You can activate them again.`}
      </p>
    </Confirm>
  )
}

export function DeletePerson({ person, onClose, onDeleted }: Props & { onDeleted?: () => void }) {
  const refresh = useRefresh()
  return (
    <Confirm
      title={`Delete ${person.name}?`}
      typeToConfirm={person.name}
      action={person.kind === 'user' ? 'Delete user' : 'Delete bot'}
      act={() =>
        person.kind === 'user'
          ? answerOf(api.DELETE('/users/{id}', pathOf(person)))
          : answerOf(api.DELETE('/bot_users/{id}', pathOf(person)))
      }
      onDone={async () => {
        onClose()
        onDeleted?.()
        await Promise.all([refresh('/users'), refresh('/bot_users'), refresh('/api_keys')])
      }}
      onClose={onClose}
    >
      <p>
        {keysOf(person)} of {person.name} {person.keys === 1 ? 'is' : 'are'} deleted too and stop working immediately.
        This cannot be undone.
      </p>
    </Confirm>
  )
}
