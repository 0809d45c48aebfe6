import { answerOf, api, type Shapes } from '../../api/client.ts'
import { useRefresh } from '../../api/queries.ts'
import { CardChoice } from '../../ui/card_choice.tsx'
import { Field } from '../../ui/field.tsx'
import { FormDialog } from '../../ui/form_dialog.tsx'
import { useDraft } from '../../ui/use_draft.ts'

type Role = Shapes['User']['role']
const roles = [
  { value: 'viewer', title: 'Viewer', detail: 'Sees what members see and changes nothing' },
  { value: 'member', title: 'Member', detail: 'Manages policies, edges, backends and their own keys' },
  { value: 'admin', title: 'Admin', detail: 'Also restrictions, people, nodes and the audit log' },
] as const

export function UserForm({ user, onClose }: { user?: Shapes['User']; onClose: () => void }) {
  const { values, set, isDirty } = useDraft<{ name: string; email: string; role: Role }>({
    name: user?.name ?? '',
    email: user?.email ?? '',
    role: user?.role ?? 'member',
  })
  const refresh = useRefresh()
  return (
    <FormDialog
      title={user ? `Edit ${user.name}` : 'Create user'}
      action={user ? 'Save user' : 'Create user'}
      isDirty={isDirty}
      save={() =>
        user
          ? answerOf(api.PATCH('/users/{id}', { params: { path: { id: user.id } }, body: values }))
          : answerOf(api.POST('/users', { body: values }))
      }
      onSaved={async () => {
        await refresh('/users')
        onClose()
      }}
      onClose={onClose}
    >
      <Field label="Name" name="name" autoFocus value={values.name} onChange={set('name')} />
      <Field
        label="Email"
        name="email"
        type="email"
        value={values.email}
        onChange={set('email')}
        hint="For you to know who it is. Gatehouse sends no email."
      />
      <CardChoice label="Role" name="role" value={values.role} onChange={set('role')} options={roles} />
      {!user && <p className="note plain">Then create an API key for the user, with which they sign in.</p>}
    </FormDialog>
  )
}

export function BotForm({ bot, onClose }: { bot?: Shapes['BotUser']; onClose: () => void }) {
  const { values, set, isDirty } = useDraft({ name: bot?.name ?? '' })
  const refresh = useRefresh()
  return (
    <FormDialog
      title={bot ? `Edit ${bot.name}` : 'Create bot'}
      action={bot ? 'Save bot' : 'Create bot'}
      isDirty={isDirty}
      save={() =>
        bot
          ? answerOf(api.PATCH('/bot_users/{id}', { params: { path: { id: bot.id } }, body: values }))
          : answerOf(api.POST('/bot_users', { body: values }))
      }
      onSaved={async () => {
        await refresh('/bot_users')
        onClose()
      }}
      onClose={onClose}
    >
      <Field
        label="Name"
        name="name"
        autoFocus
        value={values.name}
        onChange={set('name')}
        hint="The program that uses its keys. Bots are members and cannot sign in to the dashboard."
      />
    </FormDialog>
  )
}
