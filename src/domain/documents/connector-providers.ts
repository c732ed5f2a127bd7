export const oauthConnectorProviders = ['acme_drive', 'acme_onedrive', 'acme_sharepoint', 'acme_dropbox'] as const;

export type OAuthConnectorProvider = (typeof oauthConnectorProviders)[number];

export type ConnectorProvider = OAuthConnectorProvider | 'acme_s3';

export const connectorProviderLabels: Readonly<Record<ConnectorProvider, string>> = {
  acme_drive: 'Google Drive',
  acme_onedrive: 'OneDrive',
  acme_sharepoint: 'SharePoint',
  acme_dropbox: 'Dropbox',
  acme_s3: 'S3',
};
