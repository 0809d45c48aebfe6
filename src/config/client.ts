import { setting } from './setting.ts'
import { publicUrl, text } from './values.ts'

/** Settings of `gatehouse` as an API client. Empty values come from a profile. */
export const clientSettings = {
  GATEHOUSE_URL: setting({
    default: '',
    help: 'URL of the API, such as https://gatehouse.example.com.',
    parse: (value) => (value === '' ? '' : publicUrl(value)),
  }),
  GATEHOUSE_API_KEY: setting({ default: '', help: 'Token of an API key.', secret: true, parse: text }),
  GATEHOUSE_PROFILE: setting({ default: '', help: 'Profile to use when these two are not set.', parse: text }),
}
